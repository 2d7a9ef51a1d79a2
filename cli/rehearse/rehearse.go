// Package rehearse says what a command would change. Its client sends every write as a dry run, so that the API server says what it would
// refuse, and remembers it, so that the command reads what it would have written.
package rehearse

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client rehearses. What is read is what would be there: what the API server has, and what was written since.
type Client struct {
	client.Client // sends dry runs
	changes       []change
	written       map[id]map[string]any // nil if deleted
	kinds         map[schema.GroupKind]bool
}

// id identifies an object. Versions of a kind are one.
type id struct {
	schema.GroupKind
	client.ObjectKey
}

// New returns a client that rehearses what it is told to write.
func New(c client.Client) *Client {
	return &Client{Client: client.NewDryRunClient(c), written: map[id]map[string]any{}, kinds: map[schema.GroupKind]bool{}}
}

// InstallsKinds reports whether a client rehearses, and would install or update CustomResourceDefinitions: the API server won't serve them.
func InstallsKinds(c client.Client) bool {
	r, ok := c.(*Client)
	return ok && len(r.kinds) > 0
}

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	at, err := c.idOf(obj)
	if err != nil {
		return err
	}
	at.ObjectKey = key
	if content, ok := c.written[at]; ok && content != nil {
		return fill(obj, content)
	} else if ok {
		return at.notFound()
	}
	if err = c.Client.Get(ctx, key, obj, opts...); meta.IsNoMatchError(err) && c.kinds[at.GroupKind] {
		return at.notFound()
	}
	return err
}

// List implements client.Client. It leaves out what was deleted.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := c.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind := schema.GroupKind{Group: gvk.Group, Kind: strings.TrimSuffix(gvk.Kind, "List")}
	switch err := c.Client.List(ctx, list, opts...); {
	case meta.IsNoMatchError(err) && c.kinds[kind]:
		return nil
	case err != nil:
		return err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	var left []runtime.Object
	for _, o := range all {
		if content, ok := c.written[id{kind, client.ObjectKeyFromObject(o.(client.Object))}]; !ok || content != nil {
			left = append(left, o)
		}
	}
	if len(left) == len(all) {
		return nil
	}
	return meta.SetList(list, left)
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	at, err := c.idOf(obj)
	if err != nil {
		return err
	}
	if c.written[at] != nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Group: at.Group, Resource: at.Kind}, at.Name)
	}
	why, err := c.unchecked(at, c.Client.Create(ctx, obj, opts...))
	if err != nil {
		return err
	}
	return c.keep(at, nil, obj, why)
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.change(ctx, obj, func() error { return c.Client.Update(ctx, obj, opts...) })
}

// Patch implements client.Client.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.change(ctx, obj, func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

// Apply implements client.Client.
func (c *Client) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	read := func(o *unstructured.Unstructured) error {
		content, err := json.Marshal(obj)
		if err != nil {
			return err
		}
		return json.Unmarshal(content, &o.Object)
	}
	o := &unstructured.Unstructured{}
	if err := read(o); err != nil {
		return err
	}
	return c.change(ctx, o, func() error {
		if err := c.Client.Apply(ctx, obj, opts...); err != nil {
			return err
		}
		return read(o)
	})
}

// change is a write that leaves what there is to say in obj.
func (c *Client) change(ctx context.Context, obj client.Object, write func() error) error {
	at, err := c.idOf(obj)
	if err != nil {
		return err
	}
	before, err := c.current(ctx, obj)
	if err != nil {
		return err
	}
	why, err := c.unchecked(at, write())
	if err != nil {
		return err
	}
	if obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == 0 {
		c.remove(at)
		return nil
	}
	return c.keep(at, before, obj, why)
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	at, err := c.idOf(obj)
	if err != nil {
		return err
	}
	before, err := c.current(ctx, obj)
	switch {
	case err != nil:
		return err
	case before == nil:
		return at.notFound()
	}
	if _, err := c.unchecked(at, c.Client.Delete(ctx, obj, opts...)); err != nil {
		return err
	}
	if (&unstructured.Unstructured{Object: before}).GetDeletionTimestamp() == nil { // else it is being deleted already
		c.remove(at)
	}
	return nil
}

// DeleteAllOf implements client.Client.
func (c *Client) DeleteAllOf(ctx context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return err
	}
	var all metav1.PartialObjectMetadataList
	all.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	var o client.DeleteAllOfOptions
	o.ApplyOptions(opts)
	if err := c.List(ctx, &all, &o.ListOptions); err != nil {
		return err
	}
	if err := c.Client.DeleteAllOf(ctx, obj, opts...); err != nil {
		return err
	}
	for i := range all.Items {
		c.remove(id{gvk.GroupKind(), client.ObjectKeyFromObject(&all.Items[i])})
	}
	return nil
}

// SubResource implements client.Client. What an object that isn't there yet would have can't be asked for.
func (c *Client) SubResource(name string) client.SubResourceClient {
	return &subResource{SubResourceClient: c.Client.SubResource(name), c: c, name: name}
}

type subResource struct {
	client.SubResourceClient
	c    *Client
	name string
}

// Create implements client.SubResourceWriter.
func (s *subResource) Create(ctx context.Context, obj, sub client.Object, opts ...client.SubResourceCreateOption) error {
	at, err := s.c.idOf(obj)
	if err != nil {
		return err
	}
	why, err := s.c.unchecked(at, s.SubResourceClient.Create(ctx, obj, sub, opts...))
	if err != nil {
		return err
	}
	if token, ok := sub.(*authenticationv1.TokenRequest); ok {
		token.Status.Token = "" // a dry run gets a real one
	}
	s.c.changes = append(s.c.changes, change{verb: "create", kind: s.name + " of " + at.Kind, name: at.name(), unchecked: why})
	return nil
}

// current returns an object as it would be by now, nil if there is none.
func (c *Client) current(ctx context.Context, obj client.Object) (map[string]any, error) {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return nil, err
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(gvk)
	err = c.Get(ctx, client.ObjectKeyFromObject(obj), have)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return have.Object, err
}

// keep remembers what would be there, and what that changes.
func (c *Client) keep(at id, before map[string]any, obj client.Object, why string) error {
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	if obj, ok := obj.(*unstructured.Unstructured); ok {
		after = obj.DeepCopy().Object
	}
	c.written[at] = after
	change := change{verb: "create", kind: at.Kind, name: at.name(), unchecked: why}
	if before != nil {
		change.verb, change.fields = "update", differences(before, after, at.Kind == "Secret")
		if len(change.fields) == 0 {
			return nil
		}
	}
	c.changes = append(c.changes, change)
	if at.Kind == "CustomResourceDefinition" {
		group, _, _ := unstructured.NestedString(after, "spec", "group")
		kind, _, _ := unstructured.NestedString(after, "spec", "names", "kind")
		c.kinds[schema.GroupKind{Group: group, Kind: kind}] = true
	}
	return nil
}

func (c *Client) remove(at id) {
	c.written[at] = nil
	c.changes = append(c.changes, change{verb: "delete", kind: at.Kind, name: at.name()})
}

// unchecked returns why the API server couldn't check a write that follows another, or the error if it is one.
func (c *Client) unchecked(at id, err error) (string, error) {
	content, known := c.written[at]
	namespace := c.written[id{schema.GroupKind{Kind: "Namespace"}, client.ObjectKey{Name: at.Namespace}}]
	switch {
	case err == nil:
		return "", nil
	case c.kinds[at.GroupKind] && meta.IsNoMatchError(err):
		return "its kind isn't there yet", nil
	case apierrors.IsAlreadyExists(err) && known && content == nil:
		return "the one that is there goes first", nil
	case apierrors.IsNotFound(err) && namespace != nil:
		return "its namespace isn't there yet", nil
	case apierrors.IsNotFound(err) && content != nil:
		return "it isn't there yet", nil
	}
	return "", err
}

func (c *Client) idOf(obj client.Object) (id, error) {
	gvk, err := c.GroupVersionKindFor(obj)
	if err != nil {
		return id{}, fmt.Errorf("rehearse: %w", err)
	}
	return id{gvk.GroupKind(), client.ObjectKeyFromObject(obj)}, nil
}

func (at id) notFound() error {
	return apierrors.NewNotFound(schema.GroupResource{Group: at.Group, Resource: at.Kind}, at.Name)
}

func (at id) name() string { return strings.TrimPrefix(at.ObjectKey.String(), "/") }

// fill sets an object to what was written.
func fill(obj client.Object, content map[string]any) error {
	content = runtime.DeepCopyJSON(content)
	if obj, ok := obj.(*unstructured.Unstructured); ok {
		gvk := obj.GroupVersionKind()
		obj.Object = content
		obj.SetGroupVersionKind(gvk)
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj)
}
