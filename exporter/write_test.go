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
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/internal/mcs"
)

// What other clusters change in conditions, and what another MCS implementation does, is followed at a bounded pace, and in the end what is so is
// said. A change of another kind isn't delayed by the former, and what others write into the status stays. Rules C79 and C80 of
// docs/spec/control-plane.md.
func TestConditionsAreWrittenAtAPace(t *testing.T) {
	for _, c := range []struct {
		name     string
		theirs   string // the condition that changes all the time
		tenths   int    // of a second
		least    int
		most     int
		ownWaits time.Duration
	}{
		{"another cluster changes the conflict", "Conflict", 600, 10, 20, 0},
		{"another implementation writes Valid", "Valid", 200, 66, 120, writeEvery},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := connect.NewScheme()
				if err := mcs.AddToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				writes := 0
				here := fake.NewClientBuilder().WithScheme(scheme).WithObjects(export()).WithStatusSubresource(export()).WithInterceptorFuncs(interceptor.Funcs{
					SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
						writes++
						return c.SubResource(sub).Patch(ctx, o, p, opts...)
					},
				}).Build()
				r := &reconciler{
					exports: serviceExports{here, mcs.Version("v1beta1")}, events: &events.FakeRecorder{}, ofPeers: rate.NewLimiter(rate.Every(10*time.Second), 5),
				}
				known := &serviceState{}
				get := func() Source {
					src := exported()
					var err error
					if src.Export, err = r.exports.get(t.Context(), web); err != nil {
						t.Fatal(err)
					}
					return src
				}
				conflict := metav1.Condition{Type: "Conflict", Status: "False", Reason: "None"}
				say := func(out outcome) time.Duration {
					src := get()
					wait, err := r.report(t.Context(), src, desired(src), out, &conflict, known)
					if err != nil {
						t.Fatal(err)
					}
					return wait
				}
				say(outcome{})
				for i := range c.tenths {
					if c.theirs == "Conflict" {
						conflict.Message = fmt.Sprint("flip ", i)
					} else {
						after := get().Export
						meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{Type: c.theirs, Status: "True", Reason: "Theirs"})
						meta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{Type: "Synced", Status: "True", Reason: "Theirs"})
						if err := here.Status().Update(t.Context(), r.exports.version.EncodeExport(after)); err != nil {
							t.Fatal(err)
						}
					}
					say(outcome{})
					elapse(time.Second / 10)
				}
				if writes < c.least || writes > c.most {
					t.Errorf("%d writes in %d tenths of a second", writes, c.tenths)
				}
				refused := outcome{err: errors.New("a quota"), refused: true}
				began := time.Now()
				for wait := say(refused); wait > 0; wait = say(refused) {
					elapse(wait)
				}
				all := get().Export.Status.Conditions
				if waited := time.Since(began); waited > c.ownWaits || meta.FindStatusCondition(all, "Ready").Reason != "Failed" {
					t.Errorf("after %s, it says %+v", waited, all)
				}
				if is := meta.FindStatusCondition(all, "Conflict"); is.Message != conflict.Message {
					t.Errorf("in the end it says %+v, want %+v", is, conflict)
				}
				if c.theirs != "Conflict" && meta.FindStatusCondition(all, "Synced") == nil {
					t.Error("a condition of theirs is gone")
				}
			})
		})
	}
}
