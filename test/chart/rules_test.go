package chart

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// Every alert's expression is PromQL, names metrics that our code has, and its runbook is a section of docs/operations.md.
func TestAlertRules(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(chartDir, "files", "rules.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	metrics, sections := metricNames(t), sections(t)
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
			if err != nil {
				t.Errorf("%s: %v", rule.Alert, err)
				continue
			}
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if v, ok := node.(*parser.VectorSelector); ok && !metrics[v.Name] {
					t.Errorf("%s: there is no metric %s", rule.Alert, v.Name)
				}
				return nil
			})
			page, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "#")
			if page != "RUNBOOKS" || !sections[anchor] {
				t.Errorf("%s: docs/operations.md has no section %q", rule.Alert, anchor)
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s has no summary, description or severity", rule.Alert)
			}
		}
	}
}

var (
	agentMetricRE = regexp.MustCompile(`Name:\s+"(clusterset_\w+)"`)
	dnsMetricRE   = regexp.MustCompile(`Subsystem: pluginName, Name: "(\w+)"`)
)

// metricNames are those in the sources, and the one of CoreDNS's own that the rules use.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{"coredns_dns_responses_total": true}
	for _, dir := range []string{"exporter", "importer", "hub", "internal/join", "plugin"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, m := range agentMetricRE.FindAllSubmatch(content, -1) {
				names[string(m[1])] = true
			}
			for _, m := range dnsMetricRE.FindAllSubmatch(content, -1) {
				names["coredns_clusterset_"+string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// sections are the anchors of the page's headings, as GitHub makes them.
func sections(t *testing.T) map[string]bool {
	t.Helper()
	anchors := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "operations.md")), -1) {
		anchor := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		anchors[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return anchors
}
