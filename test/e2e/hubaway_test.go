package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// A running agent reports in a metric that it can't read the hub any more. The alert ClustersetHubAway uses that metric.
// Prometheus's promtool evaluates the alert with the values that the agent exported before, during and after the outage.
func TestAnAgentTellsThatTheHubIsAway(t *testing.T) {
	f := outages(t)
	tianjin := f.Member("tianjin")
	const metric = "clusterset_importer_hub_synced"
	awaits := func(want float64) float64 {
		t.Helper()
		var n float64
		kube.Eventually(t, func() (err error) {
			if n, err = tianjin.Metrics.Sum(metric); err == nil && n != want {
				err = fmt.Errorf("%s is %v, want %v", metric, n, want)
			}
			return err
		})
		return n
	}
	before := awaits(1)
	f.Hub.Plane.StopAPIServer()
	meanwhile := awaits(0)
	f.Hub.StartAPIServer()
	after := awaits(1)

	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	// Two minutes before the outage, twenty minutes of it, and twenty minutes after it.
	rules := fmt.Sprintf(`
rule_files: [%s]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - series: '%s{namespace="clusterset-system", pod="clusterset-member-a"}'
        values: %vx3 %vx40 %vx40
    alert_rule_test:
      - {eval_time: 16m, alertname: ClustersetHubAway, exp_alerts: []}
      - eval_time: 18m
        alertname: ClustersetHubAway
        exp_alerts:
          - exp_labels: {severity: warning, namespace: clusterset-system}
            exp_annotations:
              summary: The agent hasn't read the hub
              description: For a quarter of an hour the agent has not been able to read the hub's records. Names are answered from what was imported before.
              runbook_url: 'RUNBOOKS#clustersethubaway'
      - {eval_time: 30m, alertname: ClustersetHubAway, exp_alerts: []}
`, filepath.Join(root, "charts", "clusterset", "files", "rules.yaml"), metric, before, meanwhile, after)
	path := filepath.Join(t.TempDir(), "hubaway.yaml")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "-C", filepath.Join(root, "tools", "promtool"), "run", "-tags", "remove_all_sd",
		"github.com/prometheus/prometheus/cmd/promtool", "test", "rules", path).CombinedOutput()
	if err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}
