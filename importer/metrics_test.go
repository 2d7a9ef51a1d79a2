package importer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/merge"
)

func TestMetricsAreWellNamed(t *testing.T) {
	droppedCounter.WithLabelValues("a").Add(0)
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

func TestWhatHappensIsSaidOnce(t *testing.T) {
	recorder := events.NewFakeRecorder(10)
	r := newReporter(recorder, clock.RealClock{})
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	other := &foreignError{"Service", &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "derived-x", UID: "1"}}}
	said := func(want int, what string) {
		t.Helper()
		if n := len(recorder.Events); n != want {
			t.Errorf("%s: %d Events, want %d", what, n, want)
		}
		for len(recorder.Events) > 0 {
			<-recorder.Events
		}
	}
	foreignBefore := metric(t, "clusterset_importer_foreign_objects", "kind", "Service")
	for range 3 {
		r.foreign(t.Context(), key, []*foreignError{other})
	}
	said(1, "a foreign object")
	if n := metric(t, "clusterset_importer_foreign_objects", "kind", "Service"); n != foreignBefore+1 {
		t.Errorf("%v foreign Services", n)
	}
	r.foreign(t.Context(), key, nil)
	r.foreign(t.Context(), key, []*foreignError{other})
	said(1, "the foreign object again, after it had gone")

	drops := []merge.Drop{{
		Cluster: "beijing", Kind: "ExportedService", Record: "web.shop",
		Values: api.LeftOut{Errors: field.ErrorList{field.Invalid(field.NewPath("spec"), 1, "x")}, Count: 7},
	}}
	droppedBefore := metric(t, "clusterset_importer_dropped_values_total", "member", "beijing")
	for range 3 {
		r.drops(t.Context(), key, drops)
	}
	if n := metric(t, "clusterset_importer_dropped_values_total", "member", "beijing"); n != droppedBefore+7 {
		t.Errorf("counted %v drops", n-droppedBefore)
	}

	importedBefore := metric(t, "clusterset_importer_services", "state", "imported")
	r.outcome(key, stateImported)
	r.outcome(key, stateImported)
	if n := metric(t, "clusterset_importer_services", "state", "imported"); n != importedBefore+1 {
		t.Errorf("%v services imported", n-importedBefore)
	}
	r.outcome(key, "")
	if n := metric(t, "clusterset_importer_services", "state", "imported"); n != importedBefore || len(r.services) != 0 {
		t.Errorf("a service that is gone counts: %v", n-importedBefore)
	}
	if n := metric(t, "clusterset_importer_foreign_objects", "kind", "Service"); n != foreignBefore {
		t.Errorf("its foreign objects count: %v", n-foreignBefore)
	}
}

func TestForeignErrors(t *testing.T) {
	f := &foreignError{"Service", &corev1.Service{}}
	for _, tc := range []struct {
		name string
		err  error
		n    int
		only bool
	}{
		{"none", nil, 0, true},
		{"one", f, 1, true},
		{"wrapped and joined", errors.Join(fmt.Errorf("x: %w", f), errors.Join(nil, f)), 2, true},
		{"beside another", errors.Join(f, errors.New("x")), 1, false},
	} {
		if found, only := foreignErrors(tc.err); len(found) != tc.n || only != tc.only {
			t.Errorf("%s: %v, %v", tc.name, found, only)
		}
	}
}

// Exporters name the namespaces that are missing, ever new ones if they like. Rule C59 of docs/spec/control-plane.md.
func TestMissingNamespacesTakeBoundedMemory(t *testing.T) {
	r := newReporter(events.NewFakeRecorder(1), clock.RealClock{})
	for n := range 10 * maxNamespaces {
		r.namespaceMissing(t.Context(), fmt.Sprint("shop-", n), []string{fmt.Sprint("c-", n%20)})
	}
	if n := len(r.namespaces); n > maxNamespaces {
		t.Errorf("%d are remembered, want at most %d", n, maxNamespaces)
	}
}

// What is in the way of a service, or too large of it, no longer counts when nothing of it is written.
func TestWhatIsNotWrittenIsNotReported(t *testing.T) {
	g := newRig(Options{DataPath: desired.DataPathPods})
	foreign, truncated := metric(t, "clusterset_importer_foreign_objects", "kind", "Service"), metric(t, "clusterset_importer_truncated_endpoints", "", "")
	g.report.outcome(web, stateImported)
	g.report.foreign(t.Context(), web, []*foreignError{{"Service", &corev1.Service{}}})
	g.report.truncated(web, 7)
	g.forget(web)
	if n := metric(t, "clusterset_importer_foreign_objects", "kind", "Service"); n != foreign {
		t.Errorf("%v foreign objects", n-foreign)
	}
	if n := metric(t, "clusterset_importer_truncated_endpoints", "", ""); n != truncated {
		t.Errorf("%v truncated endpoints", n-truncated)
	}
	g.report.outcome(web, "")
}
