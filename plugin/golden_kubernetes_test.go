package clusterset_test

import (
	"bytes"
	"context"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// startGoldenKubernetes starts one API server for all cases. They run one after another, and each deletes its objects at the end. A source
// requests a consistent list when it starts, so no case sees objects that the previous case deleted. Namespaces stay, because no
// controller runs here that would empty a deleted one.
func startGoldenKubernetes(t *testing.T) goldenSource {
	t.Helper()
	control := kube.Start(t)
	control.InstallMCS(t)
	control.Apply(t, crds.All()...)
	return goldenSource{name: "kubernetes", provide: func(t *testing.T, _ string, objects []byte) string {
		t.Helper()
		t.Cleanup(func() {
			// Objects that stay would appear in the next case's answers. t.Context() has ended.
			if err := control.DeleteContext(context.Background(), objects); err != nil {
				t.Error(err)
			}
		})
		for _, manifest := range bytes.Split(objects, []byte("\n---\n")) { // in the order in which they are written
			var o struct {
				Metadata struct{ Namespace string }
				Status   map[string]any
			}
			if err := yaml.Unmarshal(manifest, &o); err != nil {
				t.Fatalf("%v\n%s", err, manifest)
			}
			if o.Metadata.Namespace != "" {
				control.Apply(t, namespaceYAML(o.Metadata.Namespace))
			}
			control.Apply(t, manifest)
			if o.Status != nil { // a subresource
				control.ApplyStatus(t, manifest)
			}
		}
		return "kubeconfig " + control.Kubeconfig()
	}}
}
