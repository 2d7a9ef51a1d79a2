package doctor

import (
	"bytes"
	"fmt"
	"testing"

	"k8s.io/client-go/discovery"

	"github.com/clusterset/clusterset/test/kube"
)

// A definition without the status subresource is found: nothing can say what is wrong with its objects. Rule C2 of docs/spec/control-plane.md.
func TestADefinitionWithoutStatusIsFound(t *testing.T) {
	plane := kube.Start(t)
	for _, crd := range kube.MCSCRDs() {
		if bytes.Contains(crd, []byte("kind: ServiceExport\n")) {
			crd = bytes.ReplaceAll(crd, []byte("      subresources:\n        status: {}\n"), nil)
		}
		plane.Apply(t, crd)
	}
	disco, err := discovery.NewDiscoveryClientForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		s := &Server{What: "cluster", CRDs: definitions(t.Context(), disco, plane.Config(), "cluster")}
		said := map[string]string{}
		for _, c := range s.CRDs {
			if f, bad := checkCRD(s, c, ""); bad {
				said[c.Name] = f.Message
			}
		}
		const want = "the definition of serviceexports.multicluster.x-k8s.io in the cluster is older than this clusterset: " +
			"it lacks the status subresource, and the API server drops what is written there"
		if imports, bad := said["serviceimports.multicluster.x-k8s.io"]; bad || said["serviceexports.multicluster.x-k8s.io"] != want {
			return fmt.Errorf("of exports %q, of imports %q", said["serviceexports.multicluster.x-k8s.io"], imports)
		}
		return nil
	})
}
