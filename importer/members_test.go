package importer

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/hold"
)

// In the cluster that is also the hub, one cache may still contain a MemberCluster that a leave has deleted while the other
// cache no longer does. It must not be created again. In another cluster, the same state means a MemberCluster that is yet
// to be copied.
func TestWhatLeftTheHubIsNotMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		here types.UID // UID of our own MemberCluster, empty if there is none yet
		made bool
		wait bool
	}{
		{"this cluster is the hub", "1", false, false},
		{"it is another", "2", true, false},
		{"not known yet", "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			member := func(name string, uid types.UID) *clustersetv1alpha1.MemberCluster {
				return &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
			}
			hub := fake.NewClientBuilder().WithScheme(testScheme).WithObjects(member("beijing", "1"), member("shanghai", "3")).Build()
			builder := fake.NewClientBuilder().WithScheme(testScheme).WithStatusSubresource(&clustersetv1alpha1.MemberCluster{})
			if c.here != "" {
				builder = builder.WithObjects(member("beijing", c.here))
			}
			here := builder.Build()
			m := &mirror{
				hub: hub, hold: &hold.Hold{Guard: &hold.Guard{Cluster: "beijing"}}, local: &local{cache: here, live: here, client: here}, report: newReporter(events.NewFakeRecorder(10)),
			}
			result, err := m.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "shanghai"}})
			if err != nil || (result.RequeueAfter > 0) != c.wait {
				t.Errorf("%+v, %v", result, err)
			}
			err = here.Get(t.Context(), client.ObjectKey{Name: "shanghai"}, &clustersetv1alpha1.MemberCluster{})
			if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) == c.made {
				t.Errorf("made: %v, %v", !apierrors.IsNotFound(err), err)
			}
		})
	}
}
