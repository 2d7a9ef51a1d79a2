package importer

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metrics are per process, and gauges move by what changed, so that several importers in one process (tests, demos) add
// up. Labels are states, kinds and clusters; never a service or an address.
var (
	servicesGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_importer_services",
		Help: "Services exported to the hub, by what became of them here: imported, foreign (an object of someone else's is in the way), " +
			"no_namespace, excluded (by the namespace options), held (not changed because the hub can't be trusted to be complete), failed.",
	}, []string{"state"})

	foreignGauge = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_importer_foreign_objects",
		Help: "Objects of someone else's that were left untouched where the importer would have written its own, by kind.",
	}, []string{"kind"})

	truncatedGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_importer_truncated_endpoints",
		Help: "Endpoints that found no room in their GlobalService.",
	})

	droppedCounter = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_importer_dropped_values_total",
		Help: "Parts of exported records that were left out because they can't be imported, by the cluster they come from. " +
			"Each counts once, until the service's records change.",
	}, []string{"cluster"})

	writesCounter = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_importer_writes_total",
		Help: "Writes to the local API server that succeeded, by kind and verb.",
	}, []string{"kind", "verb"})

	hubSyncedGauge = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_importer_hub_synced",
		Help: "1 once the hub's records have been read completely and importing has begun, else 0.",
	})
)

func init() {
	ctrlmetrics.Registry.MustRegister(servicesGauge, foreignGauge, truncatedGauge, droppedCounter, writesCounter, hubSyncedGauge)
}
