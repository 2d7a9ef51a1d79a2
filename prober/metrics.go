package prober

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/clusterset/clusterset/internal/verdict"
)

var (
	roundTrips = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "clusterset_prober_round_trip_seconds",
		Help:    "How long it took to connect to a beacon of another member, by member: a round trip. Dials that failed are left out.",
		Buckets: []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 3},
	}, []string{"member"})

	reachableGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_prober_member_reachable",
		Help: "1 for the verdict on each other member: True, False (its endpoints are used only if no other is left) or Unknown (it isn't measured, which changes nothing).",
	}, []string{"member", "reachable"})
)

// Collectors returns the prober's metrics.
func Collectors() []prometheus.Collector { return []prometheus.Collector{roundTrips, reachableGauge} }

var registerMetrics = sync.OnceFunc(func() { ctrlmetrics.Registry.MustRegister(Collectors()...) })

func showMetrics(cluster string, v verdict.Verdict) {
	for _, r := range []verdict.Reachable{verdict.Unknown, verdict.True, verdict.False} {
		value := 0.0
		if v.Reachable == r {
			value = 1
		}
		reachableGauge.WithLabelValues(cluster, r.String()).Set(value)
	}
}

func forgetMetrics(cluster string) {
	labels := prometheus.Labels{"member": cluster}
	reachableGauge.DeletePartialMatch(labels)
	roundTrips.DeletePartialMatch(labels)
}
