package doctor

import (
	"bytes"
	"fmt"
	"strings"
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
		s := &Server{What: "cluster"}
		if s.CRDs, err = definitions(t.Context(), disco, plane.Config(), "cluster"); err != nil {
			return err
		}
		const want = "the definition of serviceexports.multicluster.x-k8s.io in the cluster is older than this clusterset: " +
			"it lacks the status subresource, and the API server drops what is written there"
		found := 0
		for _, f := range checkCRDs(&Facts{Cluster: s}) {
			if f.Message == want {
				found++
			} else if strings.Contains(f.Message, "serviceimports") && f.Level != OK {
				return fmt.Errorf("of imports %q", f.Message)
			}
		}
		if found != 1 {
			return fmt.Errorf("%d findings say %q", found, want)
		}
		return nil
	})
}
