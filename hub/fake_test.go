package hub

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
	"github.com/clusterset/clusterset/internal/connect"
)

// fakeHub is a reconciler of objects in memory, with a clock of its own.
type fakeHub struct {
	*testing.T
	*reconciler
	client.WithWatch
	at     time.Time
	events *events.FakeRecorder
}

func newFakeHub(t *testing.T, objects ...client.Object) *fakeHub {
	h := &fakeHub{T: t, at: time.Unix(1e9, 0), events: events.NewFakeRecorder(1000)}
	h.WithWatch = fake.NewClientBuilder().WithScheme(connect.NewScheme()).
		WithStatusSubresource(&clustersetv1alpha1.MemberCluster{}, &corev1.ResourceQuota{}).WithObjects(objects...).Build()
	h.reconciler = &reconciler{
		client: h.WithWatch, live: h.WithWatch, events: h.events, now: func() time.Time { return h.at },
		every: time.Second, maxServices: DefaultMaxServices, liveness: liveness.New(liveness.DefaultThresholds), copied: map[string]time.Time{},
	}
	return h
}

// look reconciles a member. It returns its MemberCluster, and when it is looked at again.
func (h *fakeHub) look(name string) (*clustersetv1alpha1.MemberCluster, time.Duration) {
	h.Helper()
	h.Cleanup(func() { dropMetrics(name) })
	mc, key := &clustersetv1alpha1.MemberCluster{}, client.ObjectKey{Name: name}
	result, err := h.reconciler.Reconcile(h.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		h.Fatal(err)
	}
	if err := h.Get(h.Context(), key, mc); err != nil {
		h.Fatal(err)
	}
	return mc, result.RequeueAfter
}

// put creates or replaces an object.
func (h *fakeHub) put(o client.Object) {
	h.Helper()
	err := h.Create(h.Context(), o)
	if apierrors.IsAlreadyExists(err) {
		if err = h.WithWatch.Delete(h.Context(), o); err == nil {
			o.SetResourceVersion("")
			err = h.Create(h.Context(), o)
		}
	}
	if err != nil {
		h.Fatal(err)
	}
}

func (h *fakeHub) beat(name string) {
	h.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(name), Name: api.HeartbeatLease}}
	lease.Spec.RenewTime = new(metav1.NewMicroTime(h.at))
	h.put(lease)
}

func (h *fakeHub) report(name string, said clustersetv1alpha1.MemberReportSpec) {
	h.Helper()
	h.put(&clustersetv1alpha1.MemberReport{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(name), Name: clustersetv1alpha1.MemberReportName}, Spec: said,
	})
}

// member is a MemberCluster with its namespace.
func member(name string) []client.Object {
	return []client.Object{
		&clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.MemberNamespace(name)}},
	}
}
