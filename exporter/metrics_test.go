package exporter

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

func TestConflictsAreCountedOncePerService(t *testing.T) {
	var one, two entry
	src := Source{Export: &mcsv1beta1.ServiceExport{}}
	differs, agrees := &metav1.Condition{Status: metav1.ConditionTrue}, &metav1.Condition{Status: metav1.ConditionFalse}
	for i, step := range []struct {
		was  *entry
		now  entry
		want float64
	}{
		{&one, entryOf(src, Desired{}, outcome{}, agrees, false), 0},
		{&one, entryOf(src, Desired{}, outcome{}, differs, false), 1},
		{&one, entryOf(src, Desired{}, outcome{}, differs, false), 1},
		{&two, entryOf(src, Desired{}, outcome{}, differs, false), 2},
		{&one, entryOf(src, Desired{}, outcome{}, nil, false), 1},      // the hub can't be asked
		{&two, entryOf(Source{}, Desired{}, outcome{}, nil, false), 0}, // no longer exported
	} {
		step.was.replace(step.now)
		if got := testutil.ToFloat64(metricConflicts); got != step.want {
			t.Errorf("step %d: %v conflicts, want %v", i, got, step.want)
		}
	}
	one.replace(entry{})
}

func TestMetricsAreWellNamed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != len(Collectors()) {
		t.Errorf("%d of %d metrics show before anything has happened", len(families), len(Collectors()))
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
