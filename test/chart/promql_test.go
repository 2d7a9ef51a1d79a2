package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/clusterset/clusterset/test/kube"
)

// expression is a PromQL expression that the chart ships.
type expression struct {
	place, text string
	legend      string // a panel's legend, with {{label}}s of the result
}

// expressions returns the expressions of the alert rules and of the dashboards. Grafana's variables are replaced by values.
func expressions(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for _, alert := range alerts(t) {
		all = append(all, expression{place: alert.Alert, text: alert.Expr})
	}
	for name, d := range shippedDashboards(t) {
		for _, a := range d.Annotations.List {
			all = append(all, expression{name + ": " + a.Name, filled(a.Expr), a.TitleFormat + a.TextFormat})
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, expression{name + ": " + p.Title, filled(target.Expr), target.LegendFormat})
			}
		}
		for _, v := range d.Templating.List {
			if m := labelValuesRE.FindStringSubmatch(v.Definition); m != nil {
				all = append(all, expression{name + ": variable " + v.Name, filled(m[1]), "{{" + m[2] + "}}"})
			} else if v.Type == "query" {
				t.Errorf("%s: variable %s is %q; want label_values(…)", name, v.Name, v.Definition)
			}
		}
	}
	return all
}

var (
	labelValuesRE = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	legendRE      = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
)

// filled replaces the variables in an expression, as Grafana does.
func filled(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "2m")
	return regexp.MustCompile(`\$\w+`).ReplaceAllString(expr, ".*")
}

// Every expression is valid PromQL.
func TestExpressionsParse(t *testing.T) {
	for _, e := range expressions(t) {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(e.text); err != nil {
			t.Errorf("%s: %v", e.place, err)
		}
	}
}

// targetLabels are labels that Prometheus adds when it scrapes.
var targetLabels = []string{"job", "instance", "namespace", "pod", "service", "container", "endpoint", "cluster"}

// alertLabels are labels that Prometheus adds to the series of alerts, besides those of the rules.
var alertLabels = map[string][]string{"alertname": nil, "alertstate": nil, "severity": nil}

// series is what the processes export: the values of each label of each metric.
type series map[string]map[string][]string

// scrape adds the metrics of a process.
func (s series) scrape(address string) error {
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("metrics of %s: %w", address, err)
	}
	for name, f := range families {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			s.add(name+"_bucket", f, "le")
			s.add(name+"_sum", f)
			s.add(name+"_count", f)
			continue
		}
		s.add(name, f)
	}
	return nil
}

func (s series) add(name string, f *dto.MetricFamily, more ...string) {
	if s[name] == nil {
		s[name] = make(map[string][]string)
	}
	for _, label := range more {
		s[name][label] = nil
	}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if !slices.Contains(s[name][l.GetName()], l.GetValue()) {
				s[name][l.GetName()] = append(s[name][l.GetName()], l.GetValue())
			}
		}
	}
}

// has returns an error if an expression can't have a result, or if its result can't have the labels that the legend uses.
func (s series) has(e expression) error {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(e.text)
	if err != nil {
		return err
	}
	var errs []error
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		if v, ok := node.(*parser.VectorSelector); ok {
			errs = append(errs, s.hasSelector(v, path))
		}
		return nil
	})
	if left, known := resultLabels(expr); known {
		for _, m := range legendRE.FindAllStringSubmatch(e.legend, -1) {
			if !slices.Contains(left, m[1]) {
				errs = append(errs, fmt.Errorf("the legend has {{%s}}; the result has %q", m[1], left))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w\n    in %s", e.place, err, e.text)
	}
	return nil
}

// hasSelector checks that a selector's metric exists, and that it has the labels and values of the matchers and the labels that
// enclosing aggregations group by.
func (s series) hasSelector(v *parser.VectorSelector, path []parser.Node) error {
	found, ok := s[v.Name]
	if v.Name == "ALERTS" {
		found = alertLabels
	} else if !ok {
		return fmt.Errorf("no process exports %s", v.Name)
	}
	check := func(label string) error {
		if _, ok := found[label]; ok || slices.Contains(targetLabels, label) {
			return nil
		}
		return fmt.Errorf("%s has no label %s", v.Name, label)
	}
	var errs []error
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel || v.Name == "ALERTS" {
			continue
		}
		errs = append(errs, check(m.Name), hasValues(v.Name, m, found[m.Name]))
	}
	for _, node := range path {
		if a, ok := node.(*parser.AggregateExpr); ok {
			for _, label := range a.Grouping {
				errs = append(errs, check(label))
			}
		}
	}
	return errors.Join(errs...)
}

// checkedValues are the prefixes of the metrics of which the processes here export every value that an expression may name: ours from
// their start, and those of queries from the first query on.
var checkedValues = []string{"clusterset_", "coredns_clusterset_", "coredns_dns_"}

// hasValues checks that the values in a matcher exist; otherwise a misspelled one would never be found.
func hasValues(name string, m *labels.Matcher, values []string) error {
	checked := slices.ContainsFunc(checkedValues, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	if !checked || slices.Contains(targetLabels, m.Name) {
		return nil
	}
	for _, want := range strings.Split(m.Value, "|") {
		if want != ".*" && !slices.Contains(values, want) {
			return fmt.Errorf("%s has no %s=%q; its values are %q", name, m.Name, want, values)
		}
	}
	return nil
}

// resultLabels returns the labels of an expression's result, if an aggregation determines them.
func resultLabels(expr parser.Expr) (left []string, known bool) {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		return e.Grouping, !e.Without
	case *parser.ParenExpr:
		return resultLabels(e.Expr)
	case *parser.BinaryExpr:
		if left, known := resultLabels(e.LHS); known {
			return left, known
		}
		return resultLabels(e.RHS)
	case *parser.Call:
		for _, arg := range slices.Backward(e.Args) {
			if arg.Type() != parser.ValueTypeScalar {
				return resultLabels(arg)
			}
		}
	}
	return nil, false
}

// exports checks that processes export what the alert rules and the dashboards use, as far as an expression contains a text.
func exports(t *testing.T, part string, addresses ...string) error {
	t.Helper()
	found := make(series)
	for _, address := range addresses {
		if err := found.scrape(address); err != nil {
			return err
		}
	}
	var errs []error
	for _, e := range expressions(t) {
		if strings.Contains(e.text, part) {
			errs = append(errs, found.has(e))
		}
	}
	for _, name := range documentedMetrics(t) {
		// The series of the excepted one are those of clusters that answered, and no other cluster runs here.
		if part == "" && name != "clusterset_prober_round_trip_seconds" && found[name] == nil && found[name+"_bucket"] == nil {
			errs = append(errs, fmt.Errorf("no process exports %s, which docs/metrics.md has", name))
		}
	}
	return errors.Join(errs...)
}

// What the alerts and dashboards select of DNS servers is exported by one that has never reached its API server, as soon as it was asked: the
// labels of CoreDNS's metrics depend on the Corefile's plugins.
func TestTheAlertsSelectLabelsThatAServerExports(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, e := range examples(t) {
		if e.name != "defaults" && e.name != "cluster-dns" {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			s := startCorefile(t, objects(t, render(t, e.Options).Manifests), kubeconfig, "\n        startup_timeout 1ms")
			kube.Eventually(t, func() error {
				r, err := dns.Exchange(new(dns.Msg).SetQuestion("web.shop.svc.clusterset.local.", dns.TypeA), s.DNS)
				if err == nil && r.Rcode != dns.RcodeServerFailure {
					err = fmt.Errorf("not SERVFAIL: %v", r)
				}
				return err
			})
			// A query is counted after its reply is sent.
			kube.Eventually(t, func() error { return exports(t, "coredns_", s.Metrics) })
		})
	}
}

// documentedMetrics returns the names in docs/metrics.md.
func documentedMetrics(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)").FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "metrics.md")), -1) {
		names = append(names, m[1])
	}
	if len(names) < 25 {
		t.Fatalf("docs/metrics.md has %q", names)
	}
	return names
}

// TestHasFindsMistakes tests the check that exports makes on running processes.
func TestHasFindsMistakes(t *testing.T) {
	found := series{
		"clusterset_exporter_services": {"state": {"exported", "failed"}},
		"lag_seconds_bucket":           {"le": nil, "kind": {"a"}},
	}
	for _, c := range []struct{ text, legend, want string }{
		{`max by (cluster, state) (clusterset_exporter_services{state="failed", namespace="x"})`, "", ""},
		{`clusterset_exporter_services{state=~"failed|exported"} > on (pod) clusterset_exporter_services`, "", ""},
		{`histogram_quantile(0.9, sum by (le, kind) (rate(lag_seconds_bucket{kind="b"}[5m])))`, "", ""},
		{`time() - max by (state) (clusterset_exporter_services > 0)`, "p99 of {{state}}", ""},
		{`time() - max by (state) (clusterset_exporter_services > 0)`, "{{kind}}", "the legend has {{kind}}"},
		{`clusterset_exporter_service`, "", "no process exports clusterset_exporter_service"},
		{`clusterset_exporter_services{stat="failed"}`, "", "has no label stat"},
		{`clusterset_exporter_services{state=~"failed|faild"}`, "", `has no state="faild"`},
		{`sum by (phase) (rate(clusterset_exporter_services[5m]))`, "", "has no label phase"},
		{`max by (state, verb) (clusterset_exporter_services) - time()`, "", "has no label verb"},
		{`max by (cluster) (ALERTS{alertstate="firing"}) / sum(missing)`, "", "no process exports missing"},
		{`sum by (le (`, "", "parse error"},
	} {
		err := found.has(expression{"test", c.text, c.legend})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
