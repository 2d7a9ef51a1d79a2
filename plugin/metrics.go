package clusterset

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

var (
	answersTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "answers_total",
		Help: "Counter of positive answers at a service's own name, by the tier that its addresses came from: cluster, zone, region, any, vip for a ClusterSetIP, and degraded where only Suspect or drained clusters were left.",
	}, []string{"tier"})

	objectsGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "objects",
		Help: "Gauge of the objects held, by source and kind.",
	}, []string{"source", "kind"})

	syncedGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "source_synced",
		Help: "Gauge that is 1 when the objects of a kind were read and are being watched, 0 before that and while the source can't be reached.",
	}, []string{"source", "kind"})

	absentGauge = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "source_absent",
		Help: "Gauge that is 1 while the API server doesn't know a kind: its CustomResourceDefinition isn't installed.",
	}, []string{"source", "kind"})

	errorsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "source_errors_total",
		Help: "Counter of failed reads, by source and kind: lists and watches of an API server, files of a directory.",
	}, []string{"source", "kind"})

	invalidTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "invalid_objects_total",
		Help: "Counter of objects that arrived with a field that can't be served. The rest of such an object is.",
	}, []string{"source", "kind"})

	programmingSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "programming_duration_seconds",
		Help:    "Histogram of the time from the change that an EndpointSlice's last-change-trigger-time states until queries see it.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 20), // 1 ms to 9 min
	}, []string{"kind"})

	applySeconds = promauto.NewHistogram(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "apply_duration_seconds",
		Help:    "Histogram of the time from the arrival of a watch event until queries see it.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10), // 10 µs to 2.6 s
	})
)

// tierCounters are the children of answersTotal, looked up once: WithLabelValues takes a lock and hashes strings.
type tierCounters struct {
	byTier        [topology.Cluster + 1]prometheus.Counter
	vip, degraded prometheus.Counter
}

func newTierCounters() tierCounters {
	var t tierCounters
	for tier := range t.byTier {
		t.byTier[tier] = answersTotal.WithLabelValues(topology.Tier(tier).String()) //nolint:gosec // four tiers
	}
	t.vip, t.degraded = answersTotal.WithLabelValues("vip"), answersTotal.WithLabelValues("degraded")
	return t
}

func (t *tierCounters) count(v index.View) {
	switch {
	case v.VIP != nil:
		t.vip.Inc()
	case v.Set.Degraded:
		t.degraded.Inc()
	default:
		t.byTier[v.Set.Tier].Inc()
	}
}
