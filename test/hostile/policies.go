package hostile

import (
	"os"
	"strings"
	"testing"
)

// Policies returns the hub's admission policies as the chart renders them.
func Policies(t testing.TB) (manifests []string) {
	t.Helper()
	rendered, err := os.ReadFile("../chart/testdata/hub.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(rendered), "\n---\n") {
		if strings.Contains(document, "# templates/hub/admissionpolicy.yaml\n") {
			manifests = append(manifests, document)
		}
	}
	if len(manifests) == 0 {
		t.Fatal("hub.yaml has no admission policies of the hub")
	}
	return manifests
}
