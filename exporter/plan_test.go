package exporter

import (
	"encoding/json"
	"math"
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
	if r.Service != nil {
		r.Service.Spec.Revision = 1
	}
	return r
}

func inWords(steps []step) string {
	var words []string
	for _, s := range steps {
		if service, ok := s.object.(*clustersetv1alpha1.ExportedService); ok && !service.Exports() && s.verb != verbDelete {
			words = append(words, "withdraw")
			continue
		}
		words = append(words, string(s.verb)+" "+strings.TrimPrefix(s.kind, "Exported"))
	}
	return strings.Join(words, ", ")
}

// Rules C5, C6 and C9 of docs/spec/control-plane.md, S16 of docs/security.md.
func TestPlan(t *testing.T) {
	one, two := exported(slice("web-1", 1)), exported(slice("web-1", 1), slice("web-2", 1))
	none := exported()
	none.Export = nil
	moved := exported(slice("web-9", 1))
	port := exported(slice("web-1", 1))
	port.Service.Spec.Ports[0].Port = 81
	unready := exported(slice("web-1", 1, func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Conditions.Ready = &[]bool{false}[0] }))
	pending := func(r *Records) { // somebody deleted them so that they wait for a garbage collector
		for _, o := range []client.Object{r.Service, &r.Endpoints[0]} {
			o.SetDeletionTimestamp(&epoch)
			o.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
		}
	}
	withdraw := func(r *Records) {
		r.Service = withdrawn(r.Service)
		r.Service.Spec.Revision = 2
	}
	for _, c := range []struct {
		name       string
		have, want Source
		change     func(*Records)
		steps      string
	}{
		{"the same content writes nothing", two, two, nil, ""},
		{"endpoints come before their service", none, two, nil, "create Endpoints, create Endpoints, create Service"},
		{"an un-export says so first", two, none, nil, "withdraw, delete Endpoints, delete Endpoints"},
		{"its process died then", two, none, withdraw, "delete Endpoints, delete Endpoints"},
		{"exported again", one, one, withdraw, "update Service"},
		{"nothing exported, nothing there", none, none, nil, ""},
		{"old endpoints go once the service doesn't list them", one, moved, nil, "create Endpoints, update Service, delete Endpoints"},
		{"a port changed", one, port, nil, "update Service"},
		{"readiness changed", one, unready, nil, "update Endpoints"},
		{"a slice more", one, two, nil, "create Endpoints, update Service"},
		{"a slice less", two, one, nil, "update Service, delete Endpoints"},
		{"only endpoints are there", one, none, func(r *Records) { r.Service = nil }, "delete Endpoints"},
		{"a withdrawn record that isn't empty", one, none, func(r *Records) { r.Service.Spec.Withdrawn = true }, "withdraw, delete Endpoints"},
		{"another's label stays", one, one, func(r *Records) { r.Service.Labels["note"] = "x" }, ""},
		{"until the next write", one, port, func(r *Records) { r.Service.Labels["note"] = "x" }, "update Service"},
		{"a label of ours is lost", one, one, func(r *Records) { delete(r.Service.Labels, api.LabelCluster) }, "update Service"},
		{"it claims to be withdrawn to those who count", one, one, func(r *Records) { r.Service.Labels[api.LabelWithdrawn] = "true" }, "update Service"},
		{"endpoints have lost a label", one, one, func(r *Records) { delete(r.Endpoints[0].Labels, api.LabelCluster) }, "update Endpoints"},
		{"no revision", one, one, func(r *Records) { r.Service.Spec.Revision = 0 }, "update Service"},
		{"a revision that readers don't count", one, one, func(r *Records) { r.Service.Spec.Revision = math.MaxInt64 }, "update Service"},
		{"deletion pending, exported", one, one, pending, "update Endpoints, update Service"},
		{"deletion pending, not exported", one, none, pending, "withdraw, delete Endpoints"},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := stored(t, desired(c.have))
			if c.change != nil {
				c.change(&have)
			}
			steps := plan(have, desired(c.want), numbering{now: epoch.Time})
			if got := inWords(steps); got != c.steps {
				t.Errorf("got %q, want %q", got, c.steps)
			}
			for _, s := range steps {
				o := s.object
				if s.verb != verbDelete && (len(o.GetFinalizers()) > 0 || o.GetDeletionTimestamp() != nil) {
					t.Errorf("creates %+v", o)
				}
				if s.verb == verbUpdate && (o.GetLabels()["note"] != "" || len(o.GetManagedFields()) != 1) {
					t.Errorf("updates to %+v", o)
				}
			}
		})
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
		{"with a new record", exported(), at(1, first), "", "create Endpoints, update Service", first},
		{"in one form", exported(), at(1, "2026-01-02T04:04:05.060+01:00"), "", "create Endpoints, update Service", first},
		{"not from before the export", exported(), at(1, "2025-12-31T23:59:59Z"), "", "create Endpoints, update Service", ""},
		{"not garbage", exported(), at(1, "a moment ago"), "", "create Endpoints, update Service", ""},
		{"with other endpoints", at(1, first), at(2, second), "", "update Endpoints", second},
		{"not alone", at(1, first), at(1, second), "", "", ""},
		{"and is gone with the next change that has none", at(1, first), at(2, ""), "", "update Endpoints", ""},
		{"nor when something else is mended", at(1, first), at(1, second), "mend", "update Endpoints", ""},
		{"without what others noted", at(1, ""), at(2, second), "note", "update Endpoints", second},
	} {
		t.Run(c.name, func(t *testing.T) {
			have := stored(t, desired(c.have))
			if c.note != "" {
				if c.note == "mend" {
					delete(have.Endpoints[0].Labels, api.LabelCluster)
				}
				have.Endpoints[0].Annotations = labels.Merge(have.Endpoints[0].Annotations, map[string]string{c.note: "true"}, nil)
			}
			steps := plan(have, desired(c.want), numbering{now: epoch.Time})
			if inWords(steps) != c.steps {
				t.Fatalf("got %q, want %q", inWords(steps), c.steps)
			}
			if len(steps) == 0 {
				return
			}
			got := steps[0].object.GetAnnotations()
			if got[key] != c.stated || got["note"] != "" {
				t.Errorf("annotations are %v, want the time %q", got, c.stated)
			}
		})
	}
}
