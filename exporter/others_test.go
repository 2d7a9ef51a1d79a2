package exporter

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/mcs"
)

// While another cluster changes conflicts or its namespaces all the time, that is told at a bounded pace, and in the end what is so. Other changes
// are told at once. Rule C80 of docs/spec/control-plane.md.
func TestFlappingConflictsAreToldAtAPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := connect.NewScheme()
		if err := mcs.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		writes := 0
		r := &reconciler{exports: exportsOf(scheme, &writes, export()), events: &events.FakeRecorder{}, others: rate.NewLimiter(rate.Every(time.Minute), 3)}
		known := &serviceState{}
		tell := func(status metav1.ConditionStatus, message string, out outcome) (says string, wait time.Duration) {
			t.Helper()
			src := exported()
			var err error
			if src.Export, err = r.exports.get(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			conflict := mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionConflict, status, "PortConflict", message)
			if wait, err = r.report(t.Context(), src, desired(src), out, &conflict, &known.told); err != nil {
				t.Fatal(err)
			}
			if src.Export, err = r.exports.get(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			return meta.FindStatusCondition(src.Export.Status.Conditions, "Conflict").Message, wait
		}
		tell(metav1.ConditionFalse, "none", outcome{})
		for _, message := range []string{"it appears", "it changes", "it is gone"} {
			if says, wait := tell(metav1.ConditionTrue, message, outcome{}); wait > 0 || says != message {
				t.Errorf("%s: says %q, and waits for %s", message, says, wait)
			}
		}
		writes = 0
		for i := range 600 {
			elapse(time.Second)
			tell(metav1.ConditionTrue, fmt.Sprint("flip ", i), outcome{})
		}
		if writes < 9 || writes > 11 {
			t.Errorf("written %d times in ten minutes", writes)
		}
		refused := outcome{err: errNotSynced, refused: true}
		if says, wait := tell(metav1.ConditionTrue, "with another change", refused); wait > 0 || says != "with another change" {
			t.Errorf("says %q although something else changed, and waits for %s", says, wait)
		}
		_, wait := tell(metav1.ConditionFalse, "gone", refused)
		elapse(wait)
		if says, wait := tell(metav1.ConditionFalse, "gone", refused); wait > 0 || says != "gone" {
			t.Errorf("says %q in the end, and waits for %s", says, wait)
		}
	})
}

// Another MCS implementation writes its own reason for Valid, and is not Ready, as soon as we have written ours. What we have to say isn't delayed
// by that, and what it has to say stays. Rule C79 of docs/spec/control-plane.md.
func TestConditionsThatSomebodyElseWritesAreRestoredOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := connect.NewScheme()
		if err := mcs.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		writes, said := 0, events.NewFakeRecorder(2000)
		r := &reconciler{exports: exportsOf(scheme, &writes, export()), events: said, others: newOthers()}
		known := &serviceState{}
		get := func() Source {
			t.Helper()
			src := exported()
			var err error
			if src.Export, err = r.exports.get(t.Context(), web); err != nil {
				t.Fatal(err)
			}
			return src
		}
		tell := func(out outcome) time.Duration {
			t.Helper()
			src := get()
			wait, err := r.report(t.Context(), src, desired(src), out, nil, &known.told)
			if err != nil {
				t.Fatal(err)
			}
			return wait
		}
		times := 0
		theirs := func() {
			t.Helper()
			times++
			after := get().Export
			for kind, c := range map[string]metav1.Condition{
				"Valid": {Status: "True", Reason: "Theirs"}, "Ready": {Status: "False", Reason: "Theirs"},
				"Synced": {Status: "True", Reason: "Theirs", Message: fmt.Sprint(times)},
			} {
				c.Type = kind
				meta.SetStatusCondition(&after.Status.Conditions, c)
			}
			if err := r.exports.client.Status().Update(t.Context(), r.exports.version.EncodeExport(after)); err != nil {
				t.Fatal(err)
			}
		}
		ready := func(reason string) {
			t.Helper()
			all := get().Export.Status.Conditions
			if c := meta.FindStatusCondition(all, "Ready"); c.Reason != reason {
				t.Errorf("after %d changes of theirs, Ready says %s, want %s", times, c.Reason, reason)
			}
			if c := meta.FindStatusCondition(all, "Synced"); times > 0 && (c == nil || c.Message != fmt.Sprint(times)) {
				t.Errorf("after %d changes of theirs, their own condition is %+v", times, c)
			}
		}

		tell(outcome{})
		ready("Exported")
		theirs()
		if wait := tell(outcome{}); wait > 0 {
			t.Errorf("it waits for %s the first time", wait)
		}
		ready("Exported")
		writes, times = 0, 0
		for len(said.Events) > 0 {
			<-said.Events
		}
		for range 600 { // a minute
			if get().Export.Status.Conditions[0].Reason != "Theirs" {
				theirs()
			}
			if wait := tell(outcome{}); wait > time.Second {
				t.Errorf("it waits for %s", wait)
			}
			elapse(time.Second / 10)
		}
		if writes > 61 || writes < 59 || len(said.Events) > 0 {
			t.Errorf("%d writes in a minute, and %d Events", writes, len(said.Events))
		}

		theirs()
		refused := outcome{err: errors.New("a quota"), refused: true}
		if wait := tell(refused); wait > 0 {
			t.Errorf("something has changed, and it waits for %s", wait)
		}
		ready("Failed")
	})
}

// exportsOf returns exports in an API server that counts the writes of their status.
func exportsOf(scheme *runtime.Scheme, writes *int, all ...client.Object) exports {
	return exports{fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).WithStatusSubresource(all...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			*writes++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build(), mcs.Version("v1beta1")}
}
