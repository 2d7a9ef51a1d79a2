// Package dryrun lists what a command would write. Each write is sent as a dry run, so that the API server says what it would refuse.
package dryrun

import (
	"context"
	"reflect"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/cli/screen"
	"github.com/clusterset/clusterset/hub/access"
)

// recorder reads what the cluster has, without what was deleted. Writes of a status are checked, and not listed.
type recorder struct {
	client.Client // sends dry runs. Commands use Patch, not Apply, which isn't recorded
	writes        []write
	there         map[string]bool // by kind and name: true if it was created, false if it was deleted
}

type write struct{ verb, kind, name, note string }

// New returns a client that only records what is written to a cluster, and what says it then. where is the cluster in words, such as
// "On the hub at https://hub:6443".
func New(c client.Client, where string) (client.Client, func() string) {
	r := &recorder{Client: client.NewDryRunClient(c), there: map[string]bool{}}
	return r, func() string {
		if len(r.writes) == 0 {
			return where + " nothing would change.\n"
		}
		var s screen.Writer
		s.Line(screen.Cell{Text: where + " this would:"})
		for _, w := range r.writes {
			s.Line(screen.Cell{Text: "  " + w.verb + " " + w.kind + " " + w.name + w.note})
		}
		return s.String()
	}
}

// InstallsKinds reports whether CustomResourceDefinitions are only recorded: the API server won't serve them.
func InstallsKinds(c client.Client) bool {
	r, ok := c.(*recorder)
	return ok && slices.ContainsFunc(r.writes, func(w write) bool { return w.kind == "CustomResourceDefinition" })
}

func (r *recorder) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	gvk, _ := r.GroupVersionKindFor(obj) // the client says what is wrong
	if there, known := r.there[gvk.Kind+" "+strings.TrimPrefix(key.String(), "/")]; known && !there {
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
	}
	return r.Client.Get(ctx, key, obj, opts...)
}

func (r *recorder) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return r.record("create", obj, "", r.Client.Create(ctx, obj, opts...))
}

func (r *recorder) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return r.change(ctx, obj, func() error { return r.Client.Update(ctx, obj, opts...) })
}

func (r *recorder) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return r.change(ctx, obj, func() error { return r.Client.Patch(ctx, obj, patch, opts...) })
}

func (r *recorder) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return r.record("delete", obj, "", r.Client.Delete(ctx, obj, opts...))
}

func (r *recorder) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	var o client.DeleteAllOfOptions
	o.ApplyOptions(opts)
	gvk, _ := r.GroupVersionKindFor(obj) // List says what is wrong
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	err := r.List(ctx, all, &o.ListOptions)
	if err == nil {
		err = r.Client.DeleteAllOf(ctx, obj, opts...)
	}
	for i := 0; err == nil && i < len(all.Items); i++ {
		all.Items[i].SetGroupVersionKind(gvk)
		err = r.record("delete", &all.Items[i], "", nil)
	}
	return err
}

// change is a write after which obj is what would be there.
func (r *recorder) change(ctx context.Context, obj client.Object, write func() error) error {
	before := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object) // empty: reading leaves what an object lacks as it is
	before.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	missing := r.Client.Get(ctx, client.ObjectKeyFromObject(obj), before)
	if err := client.IgnoreNotFound(missing); err != nil {
		return err
	}
	err := write()
	switch {
	case missing != nil:
		return r.record("create", obj, "", err)
	case err != nil:
		return err
	case obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0:
		return r.record("delete", obj, "", nil)
	}
	before.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind()) // which not every response has
	obj.SetManagedFields(before.GetManagedFields())                                    // the API server sets these
	obj.SetResourceVersion(before.GetResourceVersion())
	obj.SetGeneration(before.GetGeneration())
	fields, err := client.MergeFrom(before).Data(obj)
	if err != nil || string(fields) == "{}" {
		return err
	}
	return r.record("update", obj, string(fields), nil)
}

func (r *recorder) SubResource(name string) client.SubResourceClient {
	return &tokens{r.Client.SubResource(name), r}
}

type tokens struct {
	client.SubResourceClient
	r *recorder
}

func (t *tokens) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	err := t.SubResourceClient.Create(ctx, obj, sub, opts...)
	if token, ok := sub.(*authenticationv1.TokenRequest); ok {
		token.Status.Token = "" // a dry run gets a real one
	}
	return t.r.record("create token of", obj, "", err)
}

// record notes what the API server allows, or can't check because it follows another write. What it refuses is returned.
func (r *recorder) record(verb string, obj client.Object, fields string, err error) error {
	gvk, _ := r.GroupVersionKindFor(obj) // known if there is no error
	w := write{verb: verb, kind: gvk.Kind, name: access.NameOf(obj)}
	switch there, known := r.there[w.kind+" "+w.name]; {
	case fields != "" && w.kind != "Secret" && len(fields) < 200: // a line or two
		w.note = ": " + fields
	case err == nil:
	case meta.IsNoMatchError(err) && InstallsKinds(r):
		w.note = " (not checked: its kind isn't there yet)"
	case apierrors.IsAlreadyExists(err) && known && !there:
		w.note = " (not checked: the one that is there goes first)"
	case apierrors.IsNotFound(err) && r.there["Namespace "+obj.GetNamespace()]:
		w.note = " (not checked: its namespace isn't there yet)"
	case apierrors.IsNotFound(err) && there:
		w.note = " (not checked: it isn't there yet)"
	default:
		return err
	}
	if verb == "create" || verb == "delete" {
		r.there[w.kind+" "+w.name] = verb == "create"
	}
	if n := len(r.writes); n == 0 || r.writes[n-1] != w { // a command that waits may repeat one
		r.writes = append(r.writes, w)
	}
	return nil
}
