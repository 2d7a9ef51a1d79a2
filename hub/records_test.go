package hub

import (
	"strings"
	"testing"
	"time"

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

// Records of a cluster that was silent for a day are deleted, also if they come back while it is silent, as from a backup of the hub. Nothing
// else need change for that. An Event says so once. Rule C22 of docs/spec/control-plane.md.
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
		liveness: liveness.New(liveness.DefaultThresholds), maxServices: DefaultMaxServices, forgotten: map[string]bool{}, quotas: map[string]quotaSeen{},
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
		if again, records := look(); records > 0 || again == 0 || again > forgetAgain {
			t.Errorf("%s: %d records, looks again after %s", when, records, again)
		}
	}
	if again, _ := look(); again > forgetAgain {
		t.Errorf("looks again after %s", again)
	}
	close(said.Events)
	forgotten := 0
	for e := range said.Events {
		if strings.Contains(e, "RecordsForgotten") {
			forgotten++
		}
	}
	if forgotten != 1 {
		t.Errorf("%d Events RecordsForgotten", forgotten)
	}
}
