package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/internal/schema"
	"github.com/clusterset/clusterset/test/kube"
)

// A hub whose definitions lack a field drops it without an error, and then a cluster could read records that it must not read. Rule C73 of
// docs/spec/control-plane.md.
func TestWhoWritesToAHubThatIsTooOldEnds(t *testing.T) {
	hub := kube.Start(t) // not in parallel: a process sets client-go's logger
	for _, content := range crds.All() {
		hub.Apply(t, bytes.ReplaceAll(content, []byte(" exportTo:\n"), []byte(" yetUnknown:\n")))
	}
	kube.Eventually(t, func() error {
		if schema.CheckHub(t.Context(), hub.Config()) == nil {
			return errors.New("the hub doesn't show it yet")
		}
		return nil
	})
	quiet := []string{"--metrics-bind-address", "0", "--health-probe-bind-address", "0"}
	for _, args := range [][]string{
		append([]string{"member", "--hub-kubeconfig", hub.Kubeconfig(), "--kubeconfig", hub.Kubeconfig(), "--cluster", "beijing"}, quiet...),
		append([]string{"hub", "--kubeconfig", hub.Kubeconfig()}, quiet...),
		{"join", "--hub-kubeconfig", hub.Kubeconfig(), "beijing"},
	} {
		code, _, said := cli(t, args...)
		if code == 0 || !strings.Contains(said, "exportedservices.clusterset.dev lacks v1alpha1.spec.exportTo") || !strings.Contains(said, "--install-crds") {
			t.Errorf("clusterset %s: exit code %d, %s", args[0], code, said)
		}
	}
	if code, _, said := cli(t, "join", "--install-crds", "--hub-kubeconfig", hub.Kubeconfig(), "beijing"); code != 0 {
		t.Errorf("with new definitions: exit code %d, %s", code, said)
	}
}
