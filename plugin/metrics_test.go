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
		"kind": {"ServiceImport", "EndpointSlice", "GlobalService", "MemberCluster", "Reachability", "other", "file"},
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
