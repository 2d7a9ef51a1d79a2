package hub

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

var (
	metricPhase = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_hub_member_phase",
		Help: "1 for the phase that a member is in, 0 for the others: Ready, Suspect, Expired, or Unknown if there has never been a heartbeat.",
	}, []string{"member", "phase"})
	metricHeard = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_hub_member_last_heartbeat_timestamp_seconds",
		Help: "When a member's Lease was last seen to change, in seconds since the epoch, by the hub process's clock; 0 if it never was.",
	}, []string{"member"})
	metricInvalid = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_hub_member_invalid",
		Help: "1 while something in a member's MemberCluster can't be used and the condition Valid names it, or WithinCIDRs says what spec.cidrs leave out; else 0.",
	}, []string{"member"})
	metricPaused = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_hub_expiry_paused",
		Help: "1 while most members are silent together: the hub then assumes that it is cut off and lets none expire.",
	})
	metricForgotten = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clusterset_hub_members_forgotten_total",
		Help: "Members whose records were deleted because they had been silent for too long.",
	})
)

// phases are the values of the label phase. Unknown isn't a phase in a status: it stands for a member whose heartbeat has never been seen.
var phases = map[string]clustersetv1alpha1.MemberClusterPhase{
	"Unknown": "", "Ready": clustersetv1alpha1.MemberReady, "Suspect": clustersetv1alpha1.MemberSuspect, "Expired": clustersetv1alpha1.MemberExpired,
}

// Collectors returns the hub process's metrics.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{metricPhase, metricHeard, metricInvalid, metricPaused, metricForgotten}
}

// registerMetrics registers the metrics only in the hub process. A member's agent is the same program, and the gauge of a part
// that doesn't run there would look like one of a broken part.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(Collectors()...) })

// countMember sets the gauges of a member.
func countMember(name string, d liveness.Decision) {
	for label, phase := range phases {
		metricPhase.WithLabelValues(name, label).Set(gauge(phase == d.Phase))
	}
	heard := 0.0
	if !d.Heard.IsZero() {
		heard = float64(d.Heard.UnixMilli()) / 1000
	}
	metricHeard.WithLabelValues(name).Set(heard)
}

// dropMetrics removes the gauges of a cluster that has left.
func dropMetrics(name string) {
	metricPhase.DeletePartialMatch(prometheus.Labels{"member": name})
	metricHeard.DeleteLabelValues(name)
	metricInvalid.DeleteLabelValues(name)
}

// gauge is the value of a gauge that says whether something is so.
func gauge(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
