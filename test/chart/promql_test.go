package chart

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
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
	for _, d := range shippedDashboards(t) {
		for _, a := range d.Annotations.List {
			all = append(all, expression{d.UID + ": " + a.Name, filled(a.Expr)})
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				all = append(all, expression{d.UID + ": " + p.Title, filled(target.Expr)})
			}
		}
		for _, v := range d.Templating.List {
			if m := labelValuesRE.FindStringSubmatch(v.Definition); m != nil {
				all = append(all, expression{d.UID + ": variable " + v.Name, filled(m[1])})
			} else if v.Type == "query" {
				t.Errorf("%s: variable %s is %q; want label_values(…)", d.UID, v.Name, v.Definition)
			}
		}
	}
	return all
}

var labelValuesRE = regexp.MustCompile(`^label_values\((.*), \w+\)$`)

// filled replaces the variables in an expression, as Grafana does.
func filled(expr string) string {
	expr = strings.NewReplacer("$__rate_interval", "2m", "$__range", "2m").Replace(expr)
	return regexp.MustCompile(`\$\w+`).ReplaceAllString(expr, ".*")
}

// targetLabels are labels that Prometheus adds when it scrapes.
var targetLabels = []string{"job", "instance", "namespace", "pod", "service", "container", "endpoint", "cluster"}

// series is what the processes export: the values of each label of each metric.
type series map[string]map[string][]string

// scrape adds the metrics of a process.
func (s series) scrape(address string) error {
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return err
	}
	defer r.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(r.Body)
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
		if v, ok := node.(*parser.VectorSelector); ok && v.Name != "ALERTS" { // which is Prometheus's own
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
	if !ok {
		return fmt.Errorf("no process exports %s", v.Name)
	}
	var names []string
	for _, node := range path {
		if a, ok := node.(*parser.AggregateExpr); ok {
			names = append(names, a.Grouping...)
		}
	}
	// The processes here export every value that an expression may name of these metrics. A misspelled one would never be found.
	complete := strings.HasPrefix(v.Name, "clusterset_") || strings.HasPrefix(v.Name, "coredns_clusterset_") || strings.HasPrefix(v.Name, "coredns_dns_")
	var errs []error
	for _, m := range v.LabelMatchers {
		if m.Name == model.MetricNameLabel || slices.Contains(targetLabels, m.Name) {
			continue
		}
		names = append(names, m.Name)
		for _, want := range strings.Split(m.Value, "|") {
			if complete && want != ".*" && !slices.Contains(found[m.Name], want) {
				errs = append(errs, fmt.Errorf("%s has no %s=%q; its values are %q", v.Name, m.Name, want, found[m.Name]))
			}
		}
	}
	for _, name := range names {
		if _, ok := found[name]; !ok && !slices.Contains(targetLabels, name) {
			errs = append(errs, fmt.Errorf("%s has no label %s", v.Name, name))
		}
	}
	return errors.Join(errs...)
}

// exports waits until processes export what the alert rules and the dashboards use, as far as an expression contains a text.
func exports(t *testing.T, part string, addresses ...string) {
	t.Helper()
	all, documented := expressions(t), documentedMetrics(t)
	kube.Eventually(t, func() error { // a query is counted after its reply is sent
		found := make(series)
		var errs []error
		for _, address := range addresses {
			errs = append(errs, found.scrape(address))
		}
		for _, e := range all {
			if strings.Contains(e.text, part) {
				errs = append(errs, found.has(e))
			}
		}
		for _, name := range documented {
			// The series of the excepted one are those of clusters that answered, and no other cluster runs here.
			if part == "" && name != "clusterset_prober_round_trip_seconds" && found[name] == nil && found[name+"_bucket"] == nil {
				errs = append(errs, fmt.Errorf("no process exports %s, which docs/metrics.md has", name))
			}
		}
		return errors.Join(errs...)
	})
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
