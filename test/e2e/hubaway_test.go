package e2e

import (
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// A running agent reports in a metric that it can't read the hub any more. The alert ClustersetHubAway uses that metric: test/chart has its
// tests, with these values.
func TestAnAgentTellsThatTheHubIsAway(t *testing.T) {
	f := outages(t)
	tianjin := f.Member("tianjin")
	expect := func(want float64) {
		t.Helper()
		kube.Eventually(t, func() error {
			n, err := tianjin.Metrics.Sum("clusterset_importer_hub_synced")
			if err == nil && n != want {
				err = fmt.Errorf("clusterset_importer_hub_synced is %v, want %v", n, want)
			}
			return err
		})
	}
	expect(1)
	f.Hub.Plane.StopAPIServer()
	expect(0)
	f.Hub.StartAPIServer()
	expect(1)
}
