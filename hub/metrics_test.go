package hub

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

func TestMembersAreCountedAndForgottenByTheMetrics(t *testing.T) {
	countMember("beijing", liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: time.UnixMilli(1500)})
	countMember("shanghai", liveness.Decision{})
	phase := func(member, phase string) float64 {
		return testutil.ToFloat64(metricPhase.WithLabelValues(member, phase))
	}
	if phase("beijing", "Ready") != 1 || phase("beijing", "Suspect") != 0 || phase("shanghai", "Unknown") != 1 {
		t.Error("the phases are wrong")
	}
	if heard := testutil.ToFloat64(metricHeard.WithLabelValues("beijing")); heard != 1.5 {
		t.Errorf("beijing was heard at %v, want 1.5", heard)
	}
	if heard := testutil.ToFloat64(metricHeard.WithLabelValues("shanghai")); heard != 0 {
		t.Errorf("shanghai was heard at %v, want 0", heard)
	}
	countMember("beijing", liveness.Decision{Phase: clustersetv1alpha1.MemberSuspect})
	if phase("beijing", "Ready") != 0 || phase("beijing", "Suspect") != 1 {
		t.Error("beijing is still Ready")
	}
	dropMetrics("shanghai")
	if n := testutil.CollectAndCount(metricPhase); n != len(phases) {
		t.Errorf("%d series of phases: shanghai, which has left, is among them", n)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	dropMetrics("beijing")
}
