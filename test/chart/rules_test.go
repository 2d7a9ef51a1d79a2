package chart

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// alertRule is one of the chart's alert rules.
type alertRule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alertRule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(chartDir, "files", "rules.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// Every alert says what is wrong and how severe it is, waits before it fires, and links to its own section of
// docs/troubleshooting.md.
func TestAlertRules(t *testing.T) {
	troubleshooting := read(t, filepath.Join(root, "docs", "troubleshooting.md"))
	for _, rule := range alerts(t) {
		page, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
		if page != "RUNBOOKS" || anchor != strings.ToLower(rule.Alert) || !strings.Contains(troubleshooting, "# "+rule.Alert+"\n") {
			t.Errorf("%s: the runbook is %q; want docs/troubleshooting.md's section of its name", rule.Alert, rule.Annotations["runbook_url"])
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s has no summary or description", rule.Alert)
		}
		if !slices.Contains([]string{"info", "warning", "critical"}, rule.Labels["severity"]) {
			t.Errorf("%s has the severity %q", rule.Alert, rule.Labels["severity"])
		}
		// A minute is two scrapes: with less, any restart would fire the alert. More than an hour would be too late.
		if d, err := time.ParseDuration(rule.For); err != nil || d < time.Minute || d > time.Hour {
			t.Errorf("%s waits for %q", rule.Alert, rule.For)
		}
	}
}

// The alerts fire and stay silent as the tests in rules/ expect, run by promtool.
func TestAlertsFire(t *testing.T) {
	files, err := filepath.Glob("rules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of the rules: %v, %v", files, err)
	}
	// The tag leaves out service discovery for a dozen clouds, which would be half of the compilation.
	args := []string{"-C", "../../tools/promtool", "run", "-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool", "test", "rules"}
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
		var tests struct {
			Tests []struct {
				AlertRuleTest []struct {
					Alertname string
					ExpAlerts []map[string]any `json:"exp_alerts"`
				} `json:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, file)), &tests); err != nil {
			t.Fatal(err)
		}
		for _, test := range tests.Tests {
			for _, at := range test.AlertRuleTest {
				fires[at.Alertname] = fires[at.Alertname] || len(at.ExpAlerts) > 0
				silent[at.Alertname] = silent[at.Alertname] || len(at.ExpAlerts) == 0
			}
		}
	}
	for _, rule := range alerts(t) {
		if !fires[rule.Alert] || !silent[rule.Alert] {
			t.Errorf("rules/ has tests in which %s fires: %t, and in which it doesn't: %t", rule.Alert, fires[rule.Alert], silent[rule.Alert])
		}
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}
