package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// A cluster is restored from another's backup while the other runs, so that two clusters have the same identity, name and credentials. The first
// continues, even after a crash of its agent. The clone writes nothing to the hub, and says so, until the other has been silent for thirty
// heartbeats.
func TestClonedCluster(t *testing.T) {
	f := outages(t)
	ns := f.Namespace("cloned")
	beijing, tianjin := f.Member("beijing"), f.Member("tianjin")
	only := func(address string) string { return slice(ns, "only", port8080, endpoint(address)) }
	beijing.Apply(exported(ns, "only", headless), only("10.200.17.1"), exported(ns, "web", httpPort))
	kube.Eventually(t, func() error { return importedFrom(tianjin, ns, "only", "beijing") })
	clone := beijing.Cloned()
	clone.Apply(only("10.200.17.66"), exported(ns, "more", httpPort))

	goesOn := func() error {
		return errors.Join(
			clone.NameTaken(1), beijing.NameTaken(0), holds(f.Hub, "beijing", ns, "only", "10.200.17.1"),
			f.Recorded("beijing", ns, "web", true), f.Recorded("beijing", ns, "more", false),
		)
	}
	clone.StartAgent()
	kube.Eventually(t, func() error {
		return errors.Join(
			goesOn(), clone.HasEvent("MemberCluster", "", "beijing", api.ReasonNameTaken, "name of its own"),
			clone.ExportIs(ns, "only", "Ready", "False", api.ReasonNameTaken), clone.ExportIs(ns, "more", "Ready", "False", api.ReasonNameTaken),
			beijing.ExportIs(ns, "only", "Ready", "True", "Exported"))
	})
	kube.Eventually(t, func() error {
		out, err := exec.Command(fleettest.Binaries().Clusterset, "doctor", "--kubeconfig", clone.Plane.Kubeconfig()).CombinedOutput()
		if !strings.Contains(string(out), "NameTaken: this cluster exports nothing") {
			return fmt.Errorf("doctor doesn't say it: %w\n%s", err, out)
		}
		return nil
	})

	beijing.KillAgent()
	beijing.StartAgent()
	kube.Eventually(t, func() error { return errors.Join(goesOn(), f.Hub.PhaseIs("beijing", clustersetv1alpha1.MemberReady)) })
	beijing.Apply(only("10.200.17.2"))
	kube.Eventually(t, func() error { return holds(f.Hub, "beijing", ns, "only", "10.200.17.2") })
	if err := metricIs(clone.Metrics, 0, "clusterset_exporter_hub_writes_total"); err != nil {
		t.Errorf("the clone has written records: %v", err)
	}
}
