package exporter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/labels"
)

// stored returns what the hub has after d was written, as it comes back over the wire.
func stored(t *testing.T, d Desired) Records {
	t.Helper()
	var r Records
	content, err := json.Marshal(Records{Service: d.Service, Endpoints: d.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func inWords(steps []step) string {
	var words []string
	for _, s := range steps {
		words = append(words, string(s.verb)+" "+s.kind)
	}
	return strings.Join(words, ", ")
}

// Rules C5 and C6 of docs/spec/control-plane.md.
func TestPlan(t *testing.T) {
	one, two := exported(slice("web-1", 1)), exported(slice("web-1", 1), slice("web-2", 1))
	none := exported()
	none.Export = nil
	moved := exported(slice("web-9", 1))
	port := exported(slice("web-1", 1))
	port.Service.Spec.Ports[0].Port = 81
	renamed := exported(slice("web-1", 1, func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = &[]string{"web"}[0] }))
	renamed.Service.Spec.Ports[0].Name = "web"
	unready := exported(slice("web-1", 1, func(s *discoveryv1.EndpointSlice) {
		no := false
		s.Endpoints[0].Conditions.Ready = &no
	}))
	for _, c := range []struct {
		name       string
		have, want Source
		steps      string
	}{
		{"the same content writes nothing", two, two, ""},
		{"endpoints come before their service", none, two, "create ExportedEndpoints, create ExportedEndpoints, create ExportedService"},
		{"un-export removes the service first", two, none, "withdraw ExportedService, delete ExportedService, delete ExportedEndpoints, delete ExportedEndpoints"},
		{"nothing exported, nothing there", none, none, ""},
		{"new endpoints before old ones go", one, moved, "create ExportedEndpoints, withdraw ExportedEndpoints, delete ExportedEndpoints"},
		{"a port changed", one, port, "update ExportedService"},
		{"a port renamed: from the service importers know which", one, renamed, "update ExportedService, update ExportedEndpoints"},
		{"readiness changed", one, unready, "update ExportedEndpoints"},
		{"a slice more", one, two, "create ExportedEndpoints"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := inWords(plan(stored(t, desired(c.have)), desired(c.want))); got != c.steps {
				t.Errorf("got %q, want %q", got, c.steps)
			}
		})
	}
}

func TestPlanMendsOurLabelsAndLeavesOthers(t *testing.T) {
	src := exported(slice("web-1", 1))
	have := stored(t, desired(src))
	have.Service.Labels["note"] = "an operator's"
	if got := inWords(plan(have, desired(src))); got != "" {
		t.Errorf("a foreign label leads to %q", got)
	}
	delete(have.Service.Labels, "clusterset.dev/cluster")
	steps := plan(have, desired(src))
	if inWords(steps) != "update ExportedService" || steps[0].object.GetLabels()["note"] == "" {
		t.Errorf("got %q with labels %v", inWords(steps), steps[0].object.GetLabels())
	}
}

// A process that died between withdrawing a record and deleting it leaves a withdrawn record. Its user may want it again.
func TestPlanTakesAWithdrawalBack(t *testing.T) {
	src := exported(slice("web-1", 1))
	have := stored(t, desired(src))
	for _, o := range []client.Object{have.Service, &have.Endpoints[0]} {
		o.SetAnnotations(map[string]string{api.AnnotationWithdrawn: "true", "note": "an operator's"})
	}
	steps := plan(have, desired(src))
	if inWords(steps) != "update ExportedEndpoints, update ExportedService" {
		t.Fatalf("got %q", inWords(steps))
	}
	for _, s := range steps {
		if a := s.object.GetAnnotations(); len(a) != 1 || a["note"] == "" {
			t.Errorf("%s has annotations %v", s.kind, a)
		}
	}
}

// A thief can delete a record so that the hub's API server keeps it for a garbage collector. Its true exporter replaces it.
// Rule C6 of docs/spec/control-plane.md, S16 of docs/security.md.
func TestAnExporterFreesItsRecords(t *testing.T) {
	src := exported(slice("web-1", 1))
	pending := func(o client.Object) {
		o.SetDeletionTimestamp(&epoch)
		o.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
	}
	have := stored(t, desired(src))
	pending(have.Service)
	pending(&have.Endpoints[0])
	steps := plan(have, desired(src))
	if got := inWords(steps); got != "delete ExportedEndpoints, create ExportedEndpoints, delete ExportedService, create ExportedService" {
		t.Fatalf("got %q", got)
	}
	for _, s := range steps {
		if s.verb == verbCreate && (len(s.object.GetFinalizers()) > 0 || s.object.GetDeletionTimestamp() != nil || s.object.GetResourceVersion() != "") {
			t.Errorf("creates %+v", s.object)
		}
	}
	if got := inWords(plan(have, Desired{})); got != "withdraw ExportedService, delete ExportedService, delete ExportedEndpoints" {
		t.Errorf("unwanted: got %q", got)
	}
}

func TestPlanRemovesRecordsThatAreNobodys(t *testing.T) {
	have := stored(t, desired(exported(slice("web-1", 1))))
	have.Service = nil // a process died and left only an endpoint record
	got := plan(have, Desired{})
	if inWords(got) != "delete ExportedEndpoints" {
		t.Errorf("got %q", inWords(got))
	}
	if !slices.ContainsFunc(got, func(s step) bool { _, ok := s.object.(*clustersetv1alpha1.ExportedEndpoints); return ok }) {
		t.Error("no ExportedEndpoints among the steps")
	}
}

// The time of a change is written together with the change, to measure how long the change took. It is never written on its own.
func TestPlanCarriesTheTimeOfAChange(t *testing.T) {
	const key, first, second = corev1.EndpointsLastChangeTriggerTime, "2026-01-02T03:04:05.06Z", "2026-01-02T04:00:00Z"
	at := func(n int, stated string) Source {
		return exported(slice("web-1", n, func(s *discoveryv1.EndpointSlice) {
			if stated != "" {
				s.Annotations = map[string]string{key: stated}
			}
		}))
	}
	for _, c := range []struct {
		name       string
		have, want Source
		note       string // an annotation that the hub's record already has
		steps      string
		stated     string
	}{
		{"with a new record", exported(), at(1, first), "", "create ExportedEndpoints", first},
		{"in one form", exported(), at(1, "2026-01-02T04:04:05.060+01:00"), "", "create ExportedEndpoints", first},
		{"not from before the export", exported(), at(1, "2025-12-31T23:59:59Z"), "", "create ExportedEndpoints", ""},
		{"not garbage", exported(), at(1, "a moment ago"), "", "create ExportedEndpoints", ""},
		{"with other endpoints", at(1, first), at(2, second), "", "update ExportedEndpoints", second},
		{"not alone", at(1, first), at(1, second), "", "", ""},
		{"and is gone with the next change that has none", at(1, first), at(2, ""), "", "update ExportedEndpoints", ""},
		{"and stays as it is when something else is mended", at(1, first), at(1, second), api.AnnotationWithdrawn, "update ExportedEndpoints", first},
		{"beside what others noted", at(1, ""), at(2, second), "note", "update ExportedEndpoints", second},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := stored(t, desired(c.have))
			if c.note != "" {
				have.Endpoints[0].Annotations = labels.Merge(have.Endpoints[0].Annotations, map[string]string{c.note: "true"}, nil)
			}
			steps := plan(have, desired(c.want))
			if inWords(steps) != c.steps {
				t.Fatalf("got %q, want %q", inWords(steps), c.steps)
			}
			if len(steps) == 0 {
				return
			}
			got := steps[0].object.GetAnnotations()
			if got[key] != c.stated || (c.note == "note") != (got["note"] == "true") {
				t.Errorf("annotations are %v, want the time %q", got, c.stated)
			}
		})
	}
}
