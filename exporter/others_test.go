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

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
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
		writes := 0
		r := &reconciler{exports: exportsOf(scheme, &writes, export()), events: &events.FakeRecorder{}, others: newOthers()}
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
		r.others.AllowN(time.Now(), int(r.others.Tokens())) // another cluster uses them up, and goes on doing so
		writes = 0
		for i := range 3600 {
			elapse(time.Second)
			r.others.Allow()
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

// A thief says in turn that it has all namespaces and none, every two minutes. Each ServiceExport is written at the pace of conflicts, with an
// Event for each write at most, and says in the end what is so. Rule C80 of docs/spec/control-plane.md.
func TestFlappingNamespacesAreToldSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := connect.NewScheme()
		if err := mcs.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		const many, atOnce, anHour = 40, 10, 60
		var all []client.Object
		for n := range many {
			all = append(all, export(func(e *mcsv1beta1.ServiceExport) { e.Name = fmt.Sprint("web-", n) }))
		}
		writes, said := 0, events.NewFakeRecorder(anHour*many)
		r := &reconciler{
			exports: exportsOf(scheme, &writes, all...), events: said, visible: visibility{own: "beijing"},
			others: rate.NewLimiter(rate.Every(time.Minute), atOnce),
		}
		known := make([]serviceState, many)
		// tell reports on all ServiceExports, and returns how many say that the thief lacks their namespace, and how many are left.
		tell := func(namespaces ...string) (lacking, left int) {
			thief := clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "thief"}}
			thief.Status.Namespaces = clustersetv1alpha1.NamespaceDigest(namespaces)
			r.visible.peers.Store(peersOf([]clustersetv1alpha1.MemberCluster{thief}, "beijing"))
			for n, export := range all {
				src := exported()
				src.Key = client.ObjectKeyFromObject(export)
				var err error
				if src.Export, err = r.exports.get(t.Context(), src.Key); err != nil {
					t.Fatal(err)
				}
				wait, err := r.report(t.Context(), src, desired(src), outcome{}, nil, &known[n].told)
				if err != nil {
					t.Fatal(err)
				}
				if wait > 0 {
					left++
				}
				if src.Export, err = r.exports.get(t.Context(), src.Key); err != nil {
					t.Fatal(err)
				}
				if meta.IsStatusConditionFalse(src.Export.Status.Conditions, api.ConditionImported) {
					lacking++
				}
			}
			return lacking, left
		}
		tell("default", "shop")
		if lacking, _ := tell("default"); lacking != many {
			t.Errorf("%d of %d say at once that a namespace is missing", lacking, many)
		}
		writes = 0
		for len(said.Events) > 0 {
			<-said.Events
		}
		for n := range anHour / 2 {
			elapse(2 * time.Minute)
			tell([][]string{{"default", "shop"}, {"default"}}[n%2]...)
		}
		if most := atOnce + anHour + 4*many; writes > most || len(said.Events) > most {
			t.Errorf("%d ServiceExports are written %d times in an hour, with %d Events, want %d at most", many, writes, len(said.Events), most)
		}
		left := many
		for waited := time.Duration(0); left > 0 && waited <= othersSeldom; waited += othersRetry {
			elapse(othersRetry)
			_, left = tell("default", "shop")
		}
		if lacking, _ := tell("default", "shop"); lacking > 0 || left > 0 {
			t.Errorf("%d say that a namespace is missing in the end, and %d aren't written", lacking, left)
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
