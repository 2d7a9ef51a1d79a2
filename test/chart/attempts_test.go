package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/test/kube"
)

// attempt is a request that must be admitted, or refused with some words. Only the API server's storage doesn't see it (dry-run).
type attempt struct {
	What string
	Do   string         // create, put, update (what is there), patch, delete or get
	Sub  string         // the subresource
	With map[string]any // what differs from the object of its group, or from what is there
	Says string         // words of the refusal, "" if it is admitted
	// First makes all others wait until this one ends as it should: policies take effect a moment after they are written.
	First bool

	right  string                     // what it needs, as in grants
	result *unstructured.Unstructured // what the API server would have stored
}

// repeats are what the files in attempts/ write large things with.
var repeats = template.FuncMap{
	"repeat": strings.Repeat,
	"each": func(n int, format string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return strings.Join(all, ", ")
	},
}

// readAttempts reads a file in attempts/: groups of attempts on an object.
func readAttempts(t *testing.T, file string) (groups []struct {
	Of    map[string]any
	Tries []attempt
},
) {
	t.Helper()
	var text strings.Builder
	source, err := template.New(file).Funcs(repeats).Parse(read(t, filepath.Join("attempts", file)))
	if err == nil {
		err = source.Execute(&text, nil)
	}
	if err := errors.Join(err, yaml.UnmarshalStrict([]byte(text.String()), &groups)); err != nil || len(groups) == 0 {
		t.Fatalf("%s: %.1000v", file, err)
	}
	return groups
}

// attempts makes the requests in a file, as somebody.
func (c *cluster) attempts(t *testing.T, file string, as *rest.Config) (made []*attempt) {
	t.Helper()
	mapper, by, admin := mapperOf(t, c.Config()), client(t, as), client(t, c.Config())
	groups := readAttempts(t, file)
	for _, first := range []bool{true, false} {
		for _, group := range groups {
			for i := range group.Tries {
				try := &group.Tries[i]
				do := func() error { return try.request(t.Context(), group.Of, mapper, by, admin) }
				switch {
				case try.First != first:
					continue
				case first:
					kube.Eventually(t, do)
				default:
					if err := do(); err != nil {
						t.Errorf("%s: %v", file, err)
					}
				}
				made = append(made, try)
			}
		}
	}
	return made
}

// request makes the request, and returns an error unless it ends as it should.
func (a *attempt) request(ctx context.Context, of map[string]any, mapper meta.RESTMapper, as, admin dynamic.Interface) error {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(of)}
	merge(o.Object, a.With)
	kind := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	at := func(by dynamic.Interface) dynamic.ResourceInterface {
		return by.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	a.right = strings.TrimSuffix(fmt.Sprintf("%s %s/%s/%s", a.Do, mapping.Resource.Group, mapping.Resource.Resource, a.Sub), "/")
	var sub []string
	if a.Sub != "" {
		sub = []string{a.Sub}
	}
	update := metav1.UpdateOptions{DryRun: dryRun.DryRun}
	switch a.Do {
	case "create":
		a.result, err = at(as).Create(ctx, o, dryRun)
	case "put":
		a.result, err = at(as).Update(ctx, o, update)
	case "update":
		if o, err = at(admin).Get(ctx, o.GetName(), metav1.GetOptions{}); err == nil {
			merge(o.Object, a.With)
			a.result, err = at(as).Update(ctx, o, update, sub...)
		}
	case "patch":
		var patch []byte
		if patch, err = json.Marshal(a.With); err == nil {
			a.result, err = at(as).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun.DryRun}, sub...)
		}
	case "delete":
		err = at(as).Delete(ctx, o.GetName(), metav1.DeleteOptions{DryRun: dryRun.DryRun})
	case "get":
		_, err = at(as).Get(ctx, o.GetName(), metav1.GetOptions{})
	default:
		err = errors.New("nobody knows how to do that")
	}
	if a.Says == "" && err != nil || a.Says != "" && (err == nil || !strings.Contains(err.Error(), a.Says)) {
		return fmt.Errorf("%s %s, %s: %.500v, want %q", a.Do, kind.Kind, a.What, err, a.Says) //nolint:errorlint // it isn't this one's cause
	}
	return nil
}

// merge applies a JSON merge patch.
func merge(to, patch map[string]any) {
	for key, value := range runtime.DeepCopyJSON(patch) {
		inner, ok := value.(map[string]any)
		has, had := to[key].(map[string]any)
		switch {
		case value == nil:
			delete(to, key)
		case ok && had:
			merge(has, inner)
		default:
			to[key] = value
		}
	}
}

// expect waits until an object has what the manifest says of it.
func (c *cluster) expect(t *testing.T, manifest string) {
	t.Helper()
	want := objects(t, manifest)[0]
	mapping, err := mapperOf(t, c.Config()).RESTMapping(want.GroupVersionKind().GroupKind(), want.GroupVersionKind().Version)
	if err != nil {
		t.Fatal(err)
	}
	resource := client(t, c.Config()).Resource(mapping.Resource).Namespace(want.GetNamespace())
	kube.Eventually(t, func() error {
		live, err := resource.Get(t.Context(), want.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		merged := live.DeepCopy()
		if merge(merged.Object, want.Object); !reflect.DeepEqual(merged, live) {
			return fmt.Errorf("want %s, it is %v", manifest, live.Object)
		}
		return nil
	})
}

// client returns a client that never waits.
func client(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
