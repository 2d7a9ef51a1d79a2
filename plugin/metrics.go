package clusterset

import (
	"slices"

	"github.com/coredns/coredns/plugin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/version"
	"github.com/clusterset/clusterset/plugin/express"
)

var (
	answersTotal = counters("answers_total",
		"Positive answers for a service's own name, by the tier of the addresses: cluster, zone, region, any, vip (a ClusterSetIP), or degraded (only Suspect, drained or unreachable clusters were left).", "tier")
	_               = collected(newServiceAnswers(running))
	unsyncedAnswers = collected(prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "unsynced_answers_total",
		Help: "Queries answered SERVFAIL because the source hasn't been read since the start and no earlier state is known.",
	}))
	objectsGauge = gauges("objects",
		"Objects held, by source and kind.", "source", "kind")
	syncedGauge = gauges("source_synced",
		"1 while the objects of a kind have been read and are being watched, 0 before that and while the source can't be reached.", "source", "kind")
	absentGauge = gauges("source_absent",
		"1 while the API server doesn't know a kind because its CustomResourceDefinition isn't installed.", "source", "kind")
	errorsTotal = counters("source_errors_total",
		"Failed reads, by source and kind: lists and watches of an API server, or files of a directory.", "source", "kind")
	invalidTotal = counters("invalid_objects_total",
		"Objects that arrived with a field that can't be served. The rest of each object is served.", "source", "kind")
	programmingSeconds = collected(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    prefix + "programming_duration_seconds",
		Help:    "Time from a change, as its EndpointSlice's last-change-trigger-time states it, until queries see the change.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 20), // 1 ms to 9 min
	}, []string{"kind"}))
	applySeconds = collected(prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    prefix + "apply_duration_seconds",
		Help:    "Time from the arrival of a watch event until queries see the change.",
		Buckets: prometheus.ExponentialBuckets(0.00001, 4, 10), // 10 µs to 2.6 s
	}))
	staleGauge = gauges("source_stale",
		"1 while queries are answered from a state file, or from what the server knew before a reload, because the source hasn't been read since.", "source")
	staleAnswers = collected(prometheus.NewCounter(prometheus.CounterOpts{
		Name: prefix + "stale_answers_total",
		Help: "Answers given while source_stale is 1.",
	}))
	stateReads = counters("state_file_reads_total",
		"Reads of state files at starts and reloads, by result: ok, absent, or refused (the log says why).", "result")
	stateWrites = counters("state_file_writes_total",
		"Writes of state files, by result: ok or error.", "result")
	_ = collected(version.Metric(plugin.Namespace + "_" + pluginName))
)

const prefix = plugin.Namespace + "_" + pluginName + "_"

var collectors []prometheus.Collector

func collected[T prometheus.Collector](c T) T {
	collectors = append(collectors, c)
	return c
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return collected(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + name, Help: help}, labels))
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return collected(prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels))
}

// Collectors are the plugin's metrics.
func Collectors() []prometheus.Collector { return slices.Concat(collectors, express.Collectors()) }

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
type tierCounters [index.AnswerTiers]prometheus.Counter

func newTierCounters() (t tierCounters) {
	for tier := range t {
		t[tier] = answersTotal.WithLabelValues(index.AnswerTier(tier).String()) //nolint:gosec // six tiers
	}
	return t
}
