package exporter

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Every label has a handful of values: our kinds, verbs, states. Services are counted, never named.
var (
	metricServices = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_exporter_services",
		Help: "ServiceExports of this cluster, by state: exported, refused (not valid), failed (the hub refused it), pending (the hub can't be reached), or held (the ServiceExport disappeared together with most others or with its kind, so the Service stays exported for a while).",
	}, []string{"state"})

	metricEndpoints = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_exporter_endpoints",
		Help: "Endpoints of this cluster on the hub, ready or not, without external addresses.",
	})

	metricResolveFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clusterset_exporter_resolve_failures_total",
		Help: "Failed attempts to resolve the name of an external address, such as a load balancer's. The last good answer stays.",
	})

	metricLeftOut = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_exporter_left_out_values",
		Help: "Ports, addresses, labels and other parts of exported Services that can't be exported. The Ready condition of the ServiceExport names them.",
	})

	metricConflicts = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_exporter_conflicts",
		Help: "ServiceExports of this cluster whose Conflict condition is True because another cluster's export of the same name differs.",
	})

	metricWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_exporter_hub_writes_total",
		Help: "Writes of records to the hub, by kind, verb and result: ok, refused, conflict or error.",
	}, []string{"kind", "verb", "result"})

	metricFirstPass = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_exporter_first_pass_done",
		Help: "1 once everything this cluster exports has been compared with the hub since this process started. Before that it sends no heartbeat.",
	})

	metricPassPending = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_exporter_first_pass_pending_services",
		Help: "Services that the first export pass hasn't yet compared with the hub.",
	})

	metricNameTaken = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_exporter_name_taken",
		Help: "1 while another cluster works under this cluster's name on the hub. This cluster then exports nothing.",
	})

	metricHeartbeats = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_exporter_heartbeats_total",
		Help: "Attempts to renew this cluster's Lease on the hub, by result: ok or error.",
	}, []string{"result"})

	metricLastHeartbeat = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_exporter_last_heartbeat_timestamp_seconds",
		Help: "When this cluster's Lease on the hub was last renewed, in seconds since the epoch; 0 if it never was.",
	})
)

func init() { // a series that appears only with its first event looks like one whose process is missing
	for _, s := range []state{stateExported, stateRefused, stateFailed, statePending, stateHeld} {
		metricServices.WithLabelValues(string(s))
	}
	for _, kind := range []string{kindService, kindEndpoints} {
		for _, v := range []verb{verbCreate, verbUpdate, verbWithdraw, verbDelete} {
			for _, result := range []string{resultOK, resultRefused, resultConflict, resultError} {
				metricWrites.WithLabelValues(kind, string(v), result)
			}
		}
	}
	for _, result := range []string{resultOK, resultError} {
		metricHeartbeats.WithLabelValues(result)
	}
}

// Collectors returns the exporter's metrics.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{
		metricServices, metricEndpoints, metricResolveFailures, metricLeftOut, metricConflicts, metricWrites, metricFirstPass, metricPassPending,
		metricNameTaken, metricHeartbeats, metricLastHeartbeat,
	}
}

// registerMetrics registers the metrics only in a process that exports. The hub process is the same program, and the gauge of a
// part that doesn't run there would look like one of a broken part.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(Collectors()...) })
