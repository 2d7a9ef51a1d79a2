package clusterset

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/version"
)

func TestMetricNamesFollowTheConventions(t *testing.T) {
	touchMetrics()
	problems, err := promlint.NewWithMetricFamilies(ourMetrics(t)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", err, problems)
	}
}

// A metric with a label for each name, address or namespace would take too much memory in an operator's Prometheus.
func TestMetricLabelsAreBounded(t *testing.T) {
	others := map[string]bool{} // series of earlier tests, whose sources have other names
	for _, f := range ourMetrics(t) {
		for _, m := range f.GetMetric() {
			others[f.GetName()+fmt.Sprint(m.GetLabel())] = true
		}
	}
	touchMetrics()
	for i := range 100 {
		q := new(dns.Msg).SetQuestion(strings.Repeat("x", i%60+1)+".ns.svc.clusterset.local.", uint16(i)) //nolint:gosec // small
		_, _ = newTestPlugin(t).ServeDNS(t.Context(), &discard{}, q)
	}
	allowed := map[string][]string{
		"tier":   {"cluster", "zone", "region", "any", "vip", "degraded"},
		"source": {"kubernetes", "manifests"},
		// other is for objects of kinds that are not served, file for files and directories that could not be read.
		"kind":              {"ServiceImport", "EndpointSlice", "GlobalService", "MemberCluster", "Reachability", "other", "file"},
		"service_namespace": {""}, "service_name": {""}, // services have series of their own once they are asked for: TestAnswersByService
		// A single series, which describes this binary.
		"version": {version.String()}, "goversion": {runtime.Version()},
	}
	families := ourMetrics(t)
	if len(families) < 8 {
		t.Errorf("only %d metrics, of those that are declared", len(families))
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if others[f.GetName()+fmt.Sprint(m.GetLabel())] {
				continue
			}
			for _, l := range m.GetLabel() {
				if !slices.Contains(allowed[l.GetName()], l.GetValue()) {
					t.Errorf("%s{%s=%q}: not one of %q", f.GetName(), l.GetName(), l.GetValue(), allowed[l.GetName()])
				}
			}
		}
	}
}

// touchMetrics creates a series of every metric with labels.
func touchMetrics() {
	newTierCounters()
	for _, k := range index.Kinds {
		objectsGauge.WithLabelValues("manifests", k.String())
		syncedGauge.WithLabelValues("manifests", k.String())
		absentGauge.WithLabelValues("kubernetes", k.String())
		errorsTotal.WithLabelValues("kubernetes", k.String())
		invalidTotal.WithLabelValues("manifests", k.String())
		programmingSeconds.WithLabelValues(k.String())
	}
}

func ourMetrics(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "coredns_clusterset_") })
}

// Rule A65 of docs/spec/answers.md: 500 services have series of their own, as long as they exist. The others share one for each tier.
func TestAnswersByService(t *testing.T) {
	c := newTestPlugin(t, vip("vip", "10.1.0.1"))
	answers := newServiceAnswers(func() []*source { return []*source{{indexes: []*index.Index{c.index}}} })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(answers)
	series := func() (services int, total func(name string) float64) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sums := map[string]float64{}
		for _, m := range families[0].GetMetric() {
			sums[m.GetLabel()[0].GetValue()] += m.GetCounter().GetValue()
		}
		return len(sums), func(name string) float64 { return sums[name] }
	}
	ask := func(name string) {
		q := new(dns.Msg).SetQuestion(name+".ns.svc.clusterset.local.", dns.TypeA)
		if _, err := c.ServeDNS(t.Context(), &discard{}, q); err != nil {
			t.Fatal(err)
		}
	}
	all := func() {
		for i := range maxCountedServices {
			ask(fmt.Sprint("s", i))
		}
	}
	ask("vip")
	if n, total := series(); n != 1 || total("") != 0 {
		t.Errorf("before any is asked for there are series of %d services, with %v answers", n, total(""))
	}
	for i := range maxCountedServices + 2 {
		c.index.Put(headless(fmt.Sprint("s", i), 1)...)
	}
	all()
	c.index.Put(headless("s0", 2)...) // its Sets are built anew
	all()
	if n, total := series(); n != maxCountedServices+1 || total("s0") != 2 || total("") != 0 {
		t.Errorf("there are series of %d services, and %v and %v answers", n, total("s0"), total(""))
	}
	ask(fmt.Sprint("s", maxCountedServices))
	all()
	if n, total := series(); n != maxCountedServices+1 || total("s0") != 3 || total("") != 1 {
		t.Errorf("with one more, there are series of %d services, and %v and %v answers", n, total("s0"), total(""))
	}
	for _, o := range headless("s0", 1) {
		c.index.Delete(o.Kind(), o.ID())
	}
	if n, total := series(); n != maxCountedServices || total("s0") != 0 {
		t.Errorf("without one, there are series of %d services, and %v answers", n, total("s0"))
	}
	ask(fmt.Sprint("s", maxCountedServices+1))
	if n, total := series(); n != maxCountedServices+1 || total(fmt.Sprint("s", maxCountedServices+1)) != 1 || total("") != 1 {
		t.Errorf("another in its place: there are series of %d services, and %v answers of the others", n, total(""))
	}
}
