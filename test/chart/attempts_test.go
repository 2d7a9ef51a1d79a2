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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	by, admin := resources(t, as), resources(t, c.Config())
	groups := readAttempts(t, file)
	for _, first := range []bool{true, false} {
		for _, group := range groups {
			for i := range group.Tries {
				try := &group.Tries[i]
				do := func() error { return try.request(t.Context(), group.Of, by, admin) }
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
func (a *attempt) request(ctx context.Context, of map[string]any, by, admin *kube.Resources) error {
	o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(of)}
	merge(o.Object, a.With)
	mapping, err := by.Mapping(o)
	if err != nil {
		return err
	}
	at, err := by.Of(o)
	if err != nil {
		return err
	}
	a.right = strings.TrimSuffix(fmt.Sprintf("%s %s/%s/%s", a.Do, mapping.Resource.Group, mapping.Resource.Resource, a.Sub), "/")
	var sub []string
	if a.Sub != "" {
		sub = []string{a.Sub}
	}
	update := metav1.UpdateOptions{DryRun: dryRun.DryRun}
	switch a.Do {
	case "create":
		a.result, err = at.Create(ctx, o, dryRun)
	case "put":
		a.result, err = at.Update(ctx, o, update)
	case "update":
		if o, err = admin.Get(ctx, o); err == nil {
			merge(o.Object, a.With)
			a.result, err = at.Update(ctx, o, update, sub...)
		}
	case "patch":
		var patch []byte
		if patch, err = json.Marshal(a.With); err == nil {
			a.result, err = at.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{DryRun: dryRun.DryRun}, sub...)
		}
	case "delete":
		err = at.Delete(ctx, o.GetName(), metav1.DeleteOptions{DryRun: dryRun.DryRun})
	case "get":
		_, err = by.Get(ctx, o)
	default:
		err = errors.New("nobody knows how to do that")
	}
	if a.Says == "" && err != nil || a.Says != "" && (err == nil || !strings.Contains(err.Error(), a.Says)) {
		return fmt.Errorf("%s %s, %s: %.500v, want %q", a.Do, mapping.GroupVersionKind.Kind, a.What, err, a.Says) //nolint:errorlint // it isn't this one's cause
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
	admin := resources(t, c.Config())
	kube.Eventually(t, func() error {
		live, err := admin.Get(t.Context(), want)
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

// resources returns the resources of an API server, for somebody.
func resources(t *testing.T, config *rest.Config) *kube.Resources {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1 // it never waits
	all, err := kube.NewResources(config)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
