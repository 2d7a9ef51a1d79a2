package exporter

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/mcs"
)

// While another cluster changes conflicts all the time, each is told rarely, but in the end. Otherwise changes are told at once, as are those of
// other conditions. Rule C80 of docs/spec/control-plane.md.
func TestFlappingConflictsAreToldSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := connect.NewScheme()
		if err := mcs.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		export := export()
		writes := 0
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(export).WithStatusSubresource(export).WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
		r := &reconciler{exports: exports{c, mcs.Version("v1beta1")}, events: &events.FakeRecorder{}, conflicts: newConflicts()}
		known := &serviceState{}
		var last *metav1.Condition
		tell := func(status metav1.ConditionStatus, message string, out outcome) time.Duration {
			t.Helper()
			src := exported()
			var err error
			if src.Export, err = r.exports.get(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			conflict := mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionConflict, status, "PortConflict", message)
			wait, err := r.report(t.Context(), src, desired(src), out, &conflict, &known.told)
			if err != nil {
				t.Fatal(err)
			}
			if src.Export, err = r.exports.get(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			last = nil
			for i := range src.Export.Status.Conditions {
				if c := &src.Export.Status.Conditions[i]; c.Type == "Conflict" {
					last = c
				}
			}
			return wait
		}
		tell(metav1.ConditionFalse, "none", outcome{})
		for i, message := range []string{"it appears", "it changes", "it is gone"} {
			if wait := tell([]metav1.ConditionStatus{"True", "True", "False"}[i], message, outcome{}); wait > 0 || last.Message != message {
				t.Errorf("%s: says %q, and waits for %s", message, last.Message, wait)
			}
		}
		r.conflicts.AllowN(time.Now(), int(r.conflicts.Tokens())) // another cluster uses them up, and goes on doing so
		writes = 0
		for i := range 3600 {
			elapse(time.Second)
			r.conflicts.Allow()
			tell(metav1.ConditionTrue, fmt.Sprint("flip ", i), outcome{})
		}
		if writes < 3 || writes > 4 {
			t.Errorf("written %d times in an hour", writes)
		}
		if wait := tell(metav1.ConditionTrue, "with another change", outcome{err: errNotSynced, refused: true}); wait > 0 || last.Message != "with another change" {
			t.Errorf("says %q although something else changed, and waits for %s", last.Message, wait)
		}
		wait := tell(metav1.ConditionFalse, "gone", outcome{err: errNotSynced, refused: true})
		if wait == 0 {
			t.Error("it doesn't look again")
		}
		elapse(wait)
		if wait := tell(metav1.ConditionFalse, "gone", outcome{err: errNotSynced, refused: true}); wait > 0 || last.Message != "gone" {
			t.Errorf("says %q in the end, and waits for %s", last.Message, wait)
		}
	})
}
