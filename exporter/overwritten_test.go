package exporter

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// If someone else changes records, they are restored at once the first time, and then once a second. Local changes are written at once.
func TestRecordsThatOthersChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w written
		of := func(version string) (Source, Desired) {
			src := Source{Key: web}
			if version == "" {
				return src, Desired{}
			}
			src.Service = &corev1.Service{ObjectMeta: metav1.ObjectMeta{UID: types.UID("u"), ResourceVersion: version}}
			src.Export = &mcsv1beta1.ServiceExport{}
			return src, Desired{Service: &clustersetv1alpha1.ExportedService{}}
		}
		for _, step := range []struct {
			what, version string
			passDone      bool
			others, waits bool
		}{
			{"an orphan in the first pass", "", false, false, false},
			{"the first export", "1", true, false, false},
			{"somebody changed it", "1", true, true, false},
			{"and again", "1", true, true, true},
			{"it changed here", "2", true, false, false},
			{"un-exported", "", true, false, false},
			{"exported again", "2", true, false, false},
			{"un-exported", "", true, false, false},
			{"somebody else exports it", "", true, true, false},
			{"and again", "", true, true, true},
		} {
			src, want := of(step.version)
			others, wait := w.ask(src, want, step.passDone)
			if others != step.others || wait > 0 != step.waits {
				t.Errorf("%s: others %v, wait %s", step.what, others, wait)
			}
			elapse(wait)
			if _, wait := w.ask(src, want, step.passDone); wait > 0 {
				t.Errorf("%s: still %s to wait", step.what, wait)
			}
			if again := w.note(src, want, others); again != step.waits {
				t.Errorf("%s: somebody else's again: %v", step.what, again)
			}
		}
	})
}

// What changes with the nodes, names or networks of this cluster is no change of somebody else's.
func TestExternalAddressesChangeHere(t *testing.T) {
	for what, change := range map[string]func(*Source){
		"nodes":    func(s *Source) { s.External.Nodes = s.External.Nodes[:1] },
		"a zone":   func(s *Source) { s.External.Nodes[0].At.Zone = "z3" },
		"networks": func(s *Source) { s.External.CIDRs = []string{"192.0.2.2/32"} },
	} {
		var w written
		src := exposed()
		w.note(src, desired(src), false)
		if others, _ := w.ask(src, desired(src), true); !others {
			t.Errorf("%s: nothing changed here, and it isn't somebody else's change", what)
		}
		change(&src)
		if others, _ := w.ask(src, desired(src), true); others {
			t.Errorf("%s: it counts as somebody else's change", what)
		}
	}
}
