package clusterset_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// goldenKubernetes is one API server for all cases. They run one after another, and each deletes its objects at the end. A source
// requests a consistent list when it starts, so no case sees objects that the previous case deleted. Namespaces stay, because no
// controller runs here that would empty a deleted one.
type goldenKubernetes struct{ *kube.ControlPlane }

func startGoldenKubernetes(t *testing.T) goldenSource {
	t.Helper()
	k := goldenKubernetes{kube.Start(t)}
	k.InstallMCS(t)
	k.Apply(t, crds.All()...)
	return goldenSource{name: "kubernetes", provide: k.provide, replay: k.replay}
}

// provide applies the objects in the order in which they are written.
func (k goldenKubernetes) provide(t *testing.T, _ string, objects []byte) string {
	t.Helper()
	t.Cleanup(func() {
		// Objects that stay would appear in the next case's answers.
		if err := k.remove(objects); err != nil {
			t.Error(err)
		}
	})
	k.apply(t, bytes.Split(objects, []byte("\n---\n")))
	return "kubeconfig " + k.Kubeconfig()
}

// replay deletes the objects and creates them again in reverse order while the server watches. The final state must not depend on the
// order of events, or on whether objects arrive in a list or one by one.
func (k goldenKubernetes) replay(t *testing.T, c *goldenCase, client *goldenClient) {
	t.Helper()
	if err := k.remove(c.objects); err != nil {
		t.Fatal(err)
	}
	kube.EventuallyWithin(t, exchangeTimeout, func() error {
		if q := c.aboutService(); q != nil && c.check(client, q) == nil {
			return fmt.Errorf("dig %s is still answered after its objects are gone", q.text)
		}
		return nil
	})
	documents := bytes.Split(c.objects, []byte("\n---\n"))
	slices.Reverse(documents)
	k.apply(t, documents)
	kube.EventuallyWithin(t, 2*exchangeTimeout, func() error {
		for i := range c.queries {
			if err := c.check(client, &c.queries[i]); err != nil {
				return fmt.Errorf("after the objects went and came back: %w", err)
			}
		}
		return nil
	})
}

// aboutService returns the first query whose answer comes from an object.
func (c *goldenCase) aboutService() *goldenQuery {
	i := slices.IndexFunc(c.queries, func(q goldenQuery) bool {
		return strings.Contains(q.msg.Question[0].Name, ".svc.") && strings.Contains(q.want, ";answer")
	})
	if i < 0 {
		return nil
	}
	return &c.queries[i]
}

// apply applies each object, then its status if it has one, because status is a subresource.
func (k goldenKubernetes) apply(t *testing.T, documents [][]byte) {
	t.Helper()
	for _, manifest := range documents {
		var o struct {
			Metadata struct{ Namespace string }
			Status   map[string]any
		}
		if err := yaml.Unmarshal(manifest, &o); err != nil {
			t.Fatalf("%v\n%s", err, manifest)
		}
		if o.Metadata.Namespace != "" {
			k.Apply(t, namespaceYAML(o.Metadata.Namespace))
		}
		k.Apply(t, manifest)
		if o.Status != nil {
			k.ApplyStatus(t, manifest)
		}
	}
}

// remove deletes objects. It doesn't use t.Context(), which has ended when cleanups run.
func (k goldenKubernetes) remove(objects []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return k.DeleteContext(ctx, objects)
}
