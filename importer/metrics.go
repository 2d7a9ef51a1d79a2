package importer

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// state is the result of importing an exported service.
type state string

const (
	stateImported    state = "imported"
	stateForeign     state = "foreign"
	stateNoNamespace state = "no_namespace"
	stateExcluded    state = "excluded"
	stateHeld        state = "held"
	stateCapped      state = "capped"
	stateFailed      state = "failed"
)

// Of a Service of this cluster that asks to be extended.
const (
	stateExtended state = "extended"
	stateRefused  state = "refused"
)

// Metrics are per process. Gauges move by differences, so that several importers in one process (tests, demos) add up. Labels
// are states, kinds and members; never a service or an address.
var (
	servicesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_importer_services",
		Help: "Services exported to the hub that reach this cluster, by what became of them here: imported, foreign (an object of someone else's is in the way), " +
			"no_namespace, excluded (by the namespace options), capped (its cluster exports more than --max-services, or needs more namespaces than --max-namespaces), held (in whole or in part, because the hub doesn't have what isn't known to be un-exported), " +
			"late (a change waits for its cluster's write budget), failed.",
	}, []string{"state"})

	foreignGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_importer_foreign_objects",
		Help: "Objects of others that the importer left unchanged although it would have written its own under that name, by kind.",
	}, []string{"kind"})

	truncatedGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_importer_truncated_endpoints",
		Help: "Endpoints that didn't fit into their GlobalService.",
	})

	extendedGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_importer_extended_services",
		Help: "Services of this cluster that ask for endpoints of other clusters (the annotation clusterset.dev/extend), by what became of that: extended, refused (an Event on the Service says why).",
	}, []string{"state"})

	awaitedGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_importer_awaited_clusters",
		Help: "Clusters that the hub has lost and that haven't joined again. Their exports stay.",
	})

	lateGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_importer_late_services",
		Help: "Services with a change that waits because their member's account here is overdrawn, by member.",
	}, []string{"member"})

	leftOutGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_importer_records_left_out",
		Help: "1 while records of a member are left out here because they take more memory than --max-record-memory, by member; 0 once all fit again.",
	}, []string{"member"})

	writesCounter = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_importer_writes_total",
		Help: "Writes to the local API server that succeeded, by kind and verb.",
	}, []string{"kind", "verb"})

	hubSyncedGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_importer_hub_synced",
		Help: "1 while the hub's records have been read completely and are being watched, else 0.",
	})
)

func init() { // a series that appears only with its first event looks like one whose process is missing
	for _, s := range []state{stateImported, stateForeign, stateNoNamespace, stateExcluded, stateCapped, stateHeld, stateFailed} {
		servicesGauge.WithLabelValues(string(s))
	}
	for _, kind := range []string{"ServiceImport", "EndpointSlice", "GlobalService", "Service", "MemberCluster"} {
		foreignGauge.WithLabelValues(kind)
		for _, verb := range []string{"create", "update", "delete"} {
			writesCounter.WithLabelValues(kind, verb)
		}
	}
	for _, kind := range []string{"ServiceImport", "GlobalService", "MemberCluster"} {
		writesCounter.WithLabelValues(kind, "update_status")
	}
	writesCounter.WithLabelValues("Namespace", "create")
	for _, s := range []state{stateExtended, stateRefused} {
		extendedGauge.WithLabelValues(string(s))
	}
}

// Collectors returns the importer's metrics.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{servicesGauge, foreignGauge, truncatedGauge, extendedGauge, awaitedGauge, lateGauge, leftOutGauge, writesCounter, hubSyncedGauge}
}

// registerMetrics registers the metrics only in a process that imports. The hub process is the same program, and the gauge of a
// part that doesn't run there would look like one of a broken part.
var registerMetrics = sync.OnceFunc(func() { ctrlmetrics.Registry.MustRegister(Collectors()...) })
