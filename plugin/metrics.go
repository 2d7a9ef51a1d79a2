package clusterset

import (
	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/internal/version"
	"github.com/clusterset/clusterset/plugin/express"
)

var (
	answersTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "answers_total",
		Help: "Positive answers for a service's own name, by the tier of the addresses: cluster, zone, region, any, vip (a ClusterSetIP), or degraded (only Suspect or drained clusters were left).",
	}, []string{"tier"})

	objectsGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "objects",
		Help: "Objects held, by source and kind.",
	}, []string{"source", "kind"})

	syncedGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "source_synced",
		Help: "1 while the objects of a kind have been read and are being watched, 0 before that and while the source can't be reached.",
	}, []string{"source", "kind"})

	absentGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "source_absent",
		Help: "1 while the API server doesn't know a kind because its CustomResourceDefinition isn't installed.",
	}, []string{"source", "kind"})

	errorsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "source_errors_total",
		Help: "Failed reads, by source and kind: lists and watches of an API server, or files of a directory.",
	}, []string{"source", "kind"})

	invalidTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "invalid_objects_total",
		Help: "Objects that arrived with a field that can't be served. The rest of each object is served.",
	}, []string{"source", "kind"})

	programmingSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "programming_duration_seconds",
		Help:    "Time from a change, as its EndpointSlice's last-change-trigger-time states it, until queries see the change.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 20), // 1 ms to 9 min
	}, []string{"kind"})

	applySeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "apply_duration_seconds",
		Help:    "Time from the arrival of a watch event until queries see the change.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10), // 10 µs to 2.6 s
	})

	staleGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "source_stale",
		Help: "1 while queries are answered from a state file because the source hasn't been read since the start.",
	}, []string{"source"})

	staleAnswers = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "stale_answers_total",
		Help: "Answers from a state file.",
	})

	stateReads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "state_file_reads_total",
		Help: "Reads of state files at starts and reloads, by result: ok, absent, or refused (the log says why).",
	}, []string{"result"})

	stateWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: plugin.Namespace, Subsystem: pluginName, Name: "state_file_writes_total",
		Help: "Writes of state files, by result: ok or error.",
	}, []string{"result"})

	buildInfo = version.Metric(plugin.Namespace + "_" + pluginName)
)

// Collectors are the plugin's metrics.
func Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{
		answersTotal, objectsGauge, syncedGauge, absentGauge, errorsTotal, invalidTotal, programmingSeconds, applySeconds,
		staleGauge, staleAnswers, stateReads, stateWrites, buildInfo,
	}, express.Collectors()...)
}

func init() { prometheus.MustRegister(Collectors()...) }

// showSource creates the series of a source before its first event. Otherwise a missing series could also mean a missing server, and
// Prometheus would not see the first count as an increase.
func (s *source) showSource() {
	for _, k := range index.Kinds {
		objectsGauge.WithLabelValues(s.label, k.String())
		errorsTotal.WithLabelValues(s.label, k.String())
		invalidTotal.WithLabelValues(s.label, k.String())
		if s.feed.name() == sourceKubernetes {
			absentGauge.WithLabelValues(s.label, k.String())
		}
	}
	if s.feed.name() == sourceManifests {
		errorsTotal.WithLabelValues(s.label, kindFile)
	} else {
		programmingSeconds.WithLabelValues(index.KindEndpointSlice.String())
	}
	if s.keeper != nil {
		staleGauge.WithLabelValues(s.label)
		for _, result := range []string{"ok", "absent", "refused"} {
			stateReads.WithLabelValues(result)
		}
		for _, result := range []string{"ok", "error"} {
			stateWrites.WithLabelValues(result)
		}
	}
}

// Values of the label source, with a number appended for a Corefile's second source of a kind (see sources.label), and the value of the
// label kind for a read that fails before the kind is known.
const (
	sourceKubernetes = "kubernetes"
	sourceManifests  = "manifests"
	kindFile         = "file"
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

func (t *tierCounters) count(s *index.Set) {
	switch {
	case s.Source == index.SourceClusterSetIPs:
		t.vip.Inc()
	case s.Degraded:
		t.degraded.Inc()
	default:
		t.byTier[s.Tier].Inc()
	}
}
