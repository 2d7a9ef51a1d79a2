package hub

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// The records of a cluster that was silent for a day are deleted, also if they come back while it is silent, as from a backup of the hub. Nothing
// else need change for that. Its MemberCluster says so before, until the cluster is heard, and an Event once. Rule C22 of
// docs/spec/control-plane.md.
func TestForgottenRecordsThatReturnAreDeleted(t *testing.T) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(clustersetv1alpha1.AddToScheme(scheme))
	now := time.Unix(1e9, 0)
	heard := metav1.NewTime(now.Add(-48 * time.Hour))
	silent := &clustersetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Status:     clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberExpired, LastHeartbeatTime: &heard},
	}
	in := api.MemberNamespace("c")
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(silent, &corev1.ResourceQuota{}).
		WithObjects(silent, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: in}}).Build()
	said := events.NewFakeRecorder(100)
	r := &reconciler{
		client: c, live: c, events: said, now: func() time.Time { return now }, moved: make(chan event.TypedGenericEvent[string], 100),
		liveness: liveness.New(liveness.DefaultThresholds), maxServices: DefaultMaxServices, quotas: map[string]quotaSeen{},
	}
	look := func() (again time.Duration, records int) {
		t.Helper()
		result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		var list clustersetv1alpha1.ExportedServiceList
		if err := c.List(t.Context(), &list, client.InNamespace(in)); err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter, len(list.Items)
	}
	forgottenAt := func() time.Time {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKey{Name: "c"}, silent); err != nil {
			t.Fatal(err)
		}
		return silent.ForgottenAt()
	}
	look()
	for range liveness.DefaultThresholds.Forget / (5 * time.Second) {
		now = now.Add(5 * time.Second)
		r.tick(t.Context())
	}
	for _, when := range []string{"after a day", "and they came back", "and again"} {
		record := &clustersetv1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web.shop"}}
		if err := c.Create(t.Context(), record); err != nil {
			t.Fatal(err)
		}
		began := forgottenAt()
		if again, records := look(); forgottenAt().IsZero() || when != "after a day" && !forgottenAt().Equal(began) {
			t.Errorf("%s: the MemberCluster says Forgotten since %s, then %s", when, began, forgottenAt())
		} else if records > 0 || again == 0 || again > forgetAgain {
			t.Errorf("%s: %d records, looks again after %s", when, records, again)
		}
	}
	if again, _ := look(); again > forgetAgain {
		t.Errorf("looks again after %s", again)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: api.HeartbeatLease}}
	for beat := range 2 { // the first may be as old as the hub's last restart
		lease.ResourceVersion, lease.Spec.RenewTime = "", new(metav1.NewMicroTime(now.Add(time.Duration(beat)*time.Second)))
		if err := client.IgnoreNotFound(c.Delete(t.Context(), lease.DeepCopy())); err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		look()
	}
	if at := forgottenAt(); !at.IsZero() {
		t.Errorf("after it was heard, it says Forgotten since %s", at)
	}
	close(said.Events)
	forgotten := 0
	for e := range said.Events {
		if strings.Contains(e, clustersetv1alpha1.ReasonSilent) {
			forgotten++
		}
	}
	if forgotten != 1 {
		t.Errorf("%d Events that it is forgotten", forgotten)
	}
}
