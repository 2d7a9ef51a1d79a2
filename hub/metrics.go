package hub

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

var (
	metricPhase = gauges("clusterset_hub_member_phase",
		"1 for the phase that a member is in, 0 for the others: Ready, Suspect, Expired, or Unknown if there has never been a heartbeat.", "member", "phase")
	metricHeard = gauges("clusterset_hub_member_last_heartbeat_timestamp_seconds",
		"When a member's Lease was last seen to change, in seconds since the epoch, by the hub process's clock; 0 if it never was.", "member")
	metricInvalid = gauges("clusterset_hub_member_invalid",
		"1 while something in a member's MemberCluster can't be used and the condition Valid names it, or WithinCIDRs says what spec.cidrs leave out; else 0.", "member")
	metricPaused = collected(prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_hub_expiry_paused",
		Help: "1 while most members are silent together: the hub then assumes that it is cut off and lets none expire.",
	}))
	metricTransitions = collected(prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_hub_phase_changes_total",
		Help: "Changes of a member's phase, by the phase it changed to.",
	}, []string{"phase"}))
	metricForgotten = collected(prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clusterset_hub_members_forgotten_total",
		Help: "Members whose records were deleted because they had been silent for too long.",
	}))
)

var collectors []prometheus.Collector

func collected[T prometheus.Collector](c T) T {
	collectors = append(collectors, c)
	return c
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return collected(prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// phaseLabels maps values of the label phase to phases. Unknown isn't a phase in a status: it stands for a member whose heartbeat
// has never been seen.
var phaseLabels = map[string]clustersetv1alpha1.MemberClusterPhase{
	"Unknown": "", "Ready": clustersetv1alpha1.MemberReady, "Suspect": clustersetv1alpha1.MemberSuspect, "Expired": clustersetv1alpha1.MemberExpired,
}

func init() { // a series that appears only with its first event looks like one whose process is missing
	for label, phase := range phaseLabels {
		if phase != "" {
			metricTransitions.WithLabelValues(label)
		}
	}
}

// Collectors returns the hub process's metrics.
func Collectors() []prometheus.Collector {
	return collectors
}

// registerMetrics registers the metrics only in the hub process. A member's agent is the same program, and the gauge of a part
// that doesn't run there would look like one of a broken part.
var registerMetrics = sync.OnceFunc(func() { metrics.Registry.MustRegister(Collectors()...) })

// countMember sets the gauges of a member.
func countMember(name string, d liveness.Decision) {
	for label, phase := range phaseLabels {
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
