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
type expression struct{ place, text string }

// expressions returns the expressions of the alert rules and of the dashboards. Grafana's variables are replaced by values.
func expressions(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for _, alert := range alerts(t) {
		all = append(all, expression{alert.Alert, alert.Expr})
	}
	for name, d := range shippedDashboards(t) {
		for _, a := range d.Annotations.List {
			all = append(all, expression{name + ": " + a.Name, filled(a.Expr)})
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, expression{name + ": " + p.Title, filled(target.Expr)})
			}
		}
		for _, v := range d.Templating.List {
			if m := labelValuesRE.FindStringSubmatch(v.Definition); m != nil {
				all = append(all, expression{name + ": variable " + v.Name, filled(m[1])})
			} else if v.Type == "query" {
				t.Errorf("%s: variable %s is %q; want label_values(…)", name, v.Name, v.Definition)
			}
		}
	}
	return all
}

var labelValuesRE = regexp.MustCompile(`^label_values\((.*), \w+\)$`)

// filled replaces the variables in an expression, as Grafana does.
func filled(expr string) string {
	expr = strings.ReplaceAll(expr, "$__rate_interval", "2m")
	return regexp.MustCompile(`\$\w+`).ReplaceAllString(expr, ".*")
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

// has returns an error if an expression isn't PromQL, or can't have a result.
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
