package hub

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

var (
	metricMembers = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clusterset_hub_members",
		Help: "Members by phase: Ready, Suspect, Expired, or Unknown where there has never been a heartbeat.",
	}, []string{"phase"})

	metricBrake = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterset_hub_expiry_paused",
		Help: "1 while most members are silent together, so that the hub takes itself for cut off and lets none expire.",
	})

	metricTransitions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clusterset_hub_phase_changes_total",
		Help: "Changes of a member's phase, by the phase it changed to.",
	}, []string{"phase"})

	metricForgotten = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clusterset_hub_members_forgotten_total",
		Help: "Members whose records were deleted because they had been silent for too long.",
	})
)

func init() {
	metrics.Registry.MustRegister(metricMembers, metricBrake, metricTransitions, metricForgotten)
}

// count sets the gauges.
func count(decisions map[string]Decision, braked bool) {
	phases := map[clustersetv1alpha1.MemberClusterPhase]int{}
	for _, d := range decisions {
		phases[d.Phase]++
	}
	for phase, label := range map[clustersetv1alpha1.MemberClusterPhase]string{
		"": "Unknown", clustersetv1alpha1.MemberReady: "Ready", clustersetv1alpha1.MemberSuspect: "Suspect", clustersetv1alpha1.MemberExpired: "Expired",
	} {
		metricMembers.WithLabelValues(label).Set(float64(phases[phase]))
	}
	metricBrake.Set(0)
	if braked {
		metricBrake.Set(1)
	}
}
