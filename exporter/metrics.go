package exporter

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Every label has a handful of values: our kinds, verbs, states. Services are counted, never named.
var (
	metricServices = collected(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_exporter_services",
		Help: "ServiceExports of this cluster, by state: exported, refused (not valid), failed (the hub refused it), pending (the hub can't be reached), or held (the ServiceExport disappeared together with many others or with its kind, so the Service stays exported for a while).",
	}, []string{"state"}))
	metricEndpoints = gauge("clusterset_exporter_endpoints",
		"Endpoints of this cluster on the hub, ready or not, without external addresses.")
	metricResolveFailures = collected(prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clusterset_exporter_resolve_failures_total",
		Help: "Failed attempts to resolve the name of an external address, such as a load balancer's. The last good answer stays.",
	}))
	metricLeftOut = gauge("clusterset_exporter_left_out_values",
		"Ports, addresses, labels and other parts of exported Services that can't be exported. The condition clusterset.dev/Complete of the ServiceExport names them.")
	metricConflicts = gauge("clusterset_exporter_conflicts",
		"ServiceExports of this cluster whose Conflict condition is True because another cluster's export of the same name differs.")
	metricWrites = counters("clusterset_exporter_hub_writes_total",
		"Writes of records to the hub, by kind, verb and result: ok, refused, conflict or error.", "kind", "verb", "result")
	metricFirstPass = gauge("clusterset_exporter_first_pass_done",
		"1 once everything this cluster exports has been compared with the hub since this process started. Before that it sends no heartbeat.")
	metricPassPending = gauge("clusterset_exporter_first_pass_pending_services",
		"Services that the first export pass hasn't yet compared with the hub.")
	metricNameTaken = gauge("clusterset_exporter_name_taken",
		"1 while another cluster works under this cluster's name on the hub. This cluster then exports nothing.")
	metricHeartbeats = counters("clusterset_exporter_heartbeats_total",
		"Attempts to renew this cluster's Lease on the hub, by result: ok or error.", "result")
	metricLastHeartbeat = gauge("clusterset_exporter_last_heartbeat_timestamp_seconds",
		"When this cluster's Lease on the hub was last renewed, in seconds since the epoch; 0 if it never was.")
)

// exportState is the state of a ServiceExport, a label value of clusterset_exporter_services.
type exportState string

const (
	stateExported exportState = "exported"
	stateRefused  exportState = "refused"
	stateFailed   exportState = "failed"
	statePending  exportState = "pending"
	stateHeld     exportState = "held"
)

// The results of a write, label values of clusterset_exporter_hub_writes_total.
const resultOK, resultRefused, resultConflict, resultError = "ok", "refused", "conflict", "error"

var collectors []prometheus.Collector

func collected[T prometheus.Collector](c T) T {
	collectors = append(collectors, c)
	return c
}

func gauge(name, help string) prometheus.Gauge {
	return collected(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return collected(prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func init() { // a series that appears only with its first event looks like one whose process is missing
	for _, s := range []exportState{stateExported, stateRefused, stateFailed, statePending, stateHeld} {
		metricServices.WithLabelValues(string(s))
	}
	for _, kind := range []string{kindService, kindEndpoints} {
		for _, v := range []verb{verbCreate, verbUpdate, verbDelete} {
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
func Collectors() []prometheus.Collector { return collectors }

// registerMetrics registers the metrics only in a process that exports. The hub process is the same program, and the gauge of a
// part that doesn't run there would look like one of a broken part.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(Collectors()...) })

// entry is what one service adds to the gauges. Each reconcile replaces it, so no pass over everything is needed.
type entry struct {
	state     exportState
	endpoints int
	leftOut   int
	conflict  bool
}

// replace replaces it in the gauges.
func (e *entry) replace(now entry) {
	if now != *e {
		now.add(1)
		e.add(-1)
		*e = now
	}
}

func (e entry) add(times float64) {
	if e.state != "" {
		metricServices.WithLabelValues(string(e.state)).Add(times)
	}
	metricEndpoints.Add(times * float64(e.endpoints))
	metricLeftOut.Add(times * float64(e.leftOut))
	if e.conflict {
		metricConflicts.Add(times)
	}
}
