package chart

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alertRule is the part of one of the chart's alert rules that these tests check.
type alertRule struct{ Alert, Expr string }

func alerts(t *testing.T) (all []alertRule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(chartDir, "files", "rules.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// The alerts fire, with their labels and annotations, and stay silent as the tests in rules/ expect, run by promtool. Each has such tests, and
// the section of docs/troubleshooting.md to which it links.
func TestAlertsFire(t *testing.T) {
	files, err := filepath.Glob("rules/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The tag leaves out service discovery for a dozen clouds, which would be half of the compilation.
	args := []string{"-C", "../../tools/promtool", "run", "-tags", "remove_all_sd", "github.com/prometheus/prometheus/cmd/promtool", "test", "rules"}
	tests := ""
	for _, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
		tests += read(t, file)
	}
	troubleshooting := read(t, filepath.Join(root, "docs", "troubleshooting.md"))
	for _, rule := range alerts(t) {
		tested := "alertname: " + rule.Alert + "\n        exp_alerts:"
		if silent := strings.Count(tests, tested+" []\n"); silent == 0 || silent == strings.Count(tests, tested) {
			t.Errorf("rules/ lacks a test in which %s fires, or one in which it doesn't", rule.Alert)
		}
		if !strings.Contains(tests, "runbook_url: 'RUNBOOKS#"+strings.ToLower(rule.Alert)+"'\n") || !strings.Contains(troubleshooting, "# "+rule.Alert+"\n") {
			t.Errorf("%s doesn't link to a section of its name in docs/troubleshooting.md", rule.Alert)
		}
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}
