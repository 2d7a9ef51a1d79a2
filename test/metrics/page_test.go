package metrics

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/importer"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/version"
	clusterset "github.com/clusterset/clusterset/plugin"
	"github.com/clusterset/clusterset/prober"
	"github.com/clusterset/clusterset/test/page"
)

const head = `# Metrics

<!-- Generated from the code by make generate. -->

Every process serves metrics in the Prometheus format. The chart can create a ServiceMonitor that scrapes them all
(` + "`metrics.serviceMonitor.enabled`" + `), a PrometheusRule with alerts (` + "`metrics.rules.enabled`" + `), and ConfigMaps with Grafana
dashboards (` + "`metrics.dashboards.enabled`" + `).

Series with known labels exist from the start, with the value 0. No label holds a query's name or an address; at most 500 services have series.
`

// buildInfo is registered by the clusterset program, not by its agent and hub packages.
var buildInfo = []prometheus.Collector{version.Metric("clusterset")}

// sections are the parts of the page, one for each process.
var sections = []struct {
	title, text string
	collectors  []prometheus.Collector
}{
	{
		"DNS servers", "On `:9153`, the port of the *prometheus* plugin, together with " +
			"[CoreDNS's own metrics](https://coredns.io/plugins/metrics/). `coredns_dns_requests_total`, `coredns_dns_responses_total` and " +
			"`coredns_dns_request_duration_seconds` count the queries.", clusterset.Collectors(),
	},
	{
		"Agents of members", "On `--metrics-bind-address`, `:8080`, together with those of " +
			"[controller-runtime](https://book.kubebuilder.io/reference/metrics-reference) and those of the requests to both API servers " +
			"(`rest_client_requests_total`). Only one of several replicas works; the others show zeros.",
		slices.Concat(exporter.Collectors(), importer.Collectors(), prober.Collectors(), connect.Collectors(), buildInfo),
	},
	{"The hub process", "On `--metrics-bind-address`, `:8080`, together with those of controller-runtime. Only one of several replicas works.", slices.Concat(hub.Collectors(), buildInfo)},
}

// docs/metrics.md matches the code. UPDATE=1 rewrites it.
func TestPageIsFresh(t *testing.T) {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | type | labels | |\n|---|---|---|---|\n", s.title, s.text)
		for _, c := range s.collectors {
			m := describe(t, c)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), strings.ReplaceAll(m.help, "|", `\|`))
		}
	}
	page.Fresh(t, "../../docs/metrics.md", b.String())
}

// The plugin's README has the form of CoreDNS's plugin pages, and names every metric with its labels.
func TestPluginReadmeNamesEveryMetric(t *testing.T) {
	readme, err := os.ReadFile("../../plugin/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range clusterset.Collectors() {
		m := describe(t, c)
		want := m.name
		if len(m.labels) > 0 {
			want += "{" + strings.ReplaceAll(strings.Join(m.labels, ", "), "`", "") + "}"
		}
		if !strings.Contains(string(readme), "* `"+want+"` - ") {
			t.Errorf("plugin/README.md has no line for `%s`", want)
		}
	}
}

type metric struct {
	name, kind, help string
	labels           []string // in backquotes
}

// descRE matches the text of a *prometheus.Desc, which offers no other access to its fields.
var descRE = regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), .*variableLabels: \{([^}]*)\}\}$`)

func describe(t *testing.T, c prometheus.Collector) metric {
	t.Helper()
	descs := make(chan *prometheus.Desc, 1)
	c.Describe(descs)
	m := descRE.FindStringSubmatch((<-descs).String())
	if m == nil {
		t.Fatalf("%v is no metric of one name", c)
	}
	name, err1 := strconv.Unquote(m[1])
	help, err2 := strconv.Unquote(m[2])
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	var labels []string
	for label := range strings.SplitSeq(m[3], ",") {
		if label != "" {
			labels = append(labels, "`"+label+"`")
		}
	}
	return metric{name, kindOf(t, c), help, labels}
}

func kindOf(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	switch c.(type) {
	case *prometheus.GaugeVec, prometheus.Gauge: // before Counter, because a Gauge has all methods of a Counter
		return "gauge"
	case interface {
		GetMetricWithLabelValues(...string) (prometheus.Counter, error)
	}, prometheus.Counter:
		return "counter"
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	}
	t.Fatalf("what is a %T?", c)
	return ""
}
