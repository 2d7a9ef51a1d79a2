package importer

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/clusterset/clusterset/importer/desired"
)

func TestMetricsAreWellNamed(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// What happens is counted for as long as it is so, and told once.
func TestWhatHappensIsSaidOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	memories := newMemories()
	r := &reporter{events: recorder, memories: memories}
	count := func() (counts [4]float64) {
		return [4]float64{
			metric(t, "clusterset_importer_services", "state", "imported"), metric(t, "clusterset_importer_foreign_objects", "kind", "Service"),
			metric(t, "clusterset_importer_truncated_endpoints", "", ""), metric(t, "clusterset_importer_extended_services", "state", "refused"),
		}
	}
	before := count()
	is := func(what string, events int, counts ...float64) {
		t.Helper()
		now := count()
		for i := range now {
			if now[i]-before[i] != counts[i] {
				t.Errorf("%s: counted are %v, before it were %v", what, now, before)
			}
		}
		if n := len(recorder.Events); n != events {
			t.Errorf("%s: %d Events, want %d", what, n, events)
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
		}
	}
	other := &foreignError{"Service", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "derived-x", UID: "1"}}}
	extended := &desired.Extended{Service: &corev1.Service{}}
	for range 3 {
		r.outcome(web, stateImported)
		r.foreign(t.Context(), web, []*foreignError{other})
		r.truncated(web, 7)
		r.notExtended(t.Context(), web, extended, "it has no selector")
		r.refused(t.Context(), web, "a quota")
	}
	is("all", 3, 1, 1, 7, 1)
	r.foreign(t.Context(), web, nil)
	r.refused(t.Context(), web, "")
	r.foreign(t.Context(), web, []*foreignError{other})
	r.refused(t.Context(), web, "a quota")
	is("again, after it had gone", 2, 1, 1, 7, 1)
	memories.forget(web)
	is("nothing is written", 0, 1, 0, 0, 1)
	r.notExtended(t.Context(), web, nil, "")
	r.outcome(web, "")
	is("it is gone", 0, 0, 0, 0, 0)
	if len(memories.of) > 0 {
		t.Errorf("%d services are remembered", len(memories.of))
	}
}

// What is left out is reported when it begins and when it ends, by an Event and a metric that name the cluster. Rule C58 of
// docs/spec/control-plane.md.
func TestLeavingOutIsReported(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	report := overQuota(logr.Discard(), recorder, 48<<20)
	report("lyon", true)
	if said := <-recorder.Events; !strings.HasPrefix(said, "Warning TooMuchMemory the records of cluster lyon take more than 48 MiB here;") {
		t.Errorf("the Event says %q", said)
	}
	if left := testutil.ToFloat64(leftOutGauge.WithLabelValues("lyon")); left != 1 {
		t.Errorf("the metric is %v", left)
	}
	report("lyon", false)
	if left := testutil.ToFloat64(leftOutGauge.WithLabelValues("lyon")); left != 0 || len(recorder.Events) > 0 {
		t.Errorf("once all fit again, the metric is %v, and there are %d more Events", left, len(recorder.Events))
	}
}
