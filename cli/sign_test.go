package cli

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// A process that isn't elected leaves its sign on a bare hub too, takes the Lease from no leader, and keeps it from none.
func TestASignOfLife(t *testing.T) {
	t.Parallel()
	hub, err := connect.NewClient(kube.Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: api.SystemNamespace, Name: api.HubLeaderLease}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: key.Namespace}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a bare hub has the namespace: %v", err)
	}
	begin := time.Now().Truncate(time.Second)
	lease := &coordinationv1.Lease{}
	for _, step := range []struct {
		name string
		lead bool // before it, somebody is elected
		at   time.Duration
		want time.Duration // when the Lease was renewed
		held string
	}{
		{"the namespace", false, 0, -1, ""},
		{"the first", false, time.Second, time.Second, ""},
		{"the next", false, 6 * time.Second, 6 * time.Second, ""},
		{"beside a leader", true, 11 * time.Second, 6 * time.Second, "leader"},
		{"after the leader", false, 22 * time.Second, 22 * time.Second, ""},
	} {
		if step.lead {
			lease.Spec.HolderIdentity = ptr.To("leader")
			if err := hub.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
		}
		if err := renewSign(t.Context(), hub, key, begin.Add(step.at)); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{}}
		if err := hub.Get(t.Context(), key, lease); step.want < 0 {
			if !apierrors.IsNotFound(err) {
				t.Errorf("%s: %v", step.name, err)
			}
		} else if err != nil || !lease.Spec.RenewTime.Equal(ptr.To(metav1.NewMicroTime(begin.Add(step.want)))) || ptr.Deref(lease.Spec.HolderIdentity, "") != step.held {
			t.Errorf("%s: %+v, %v; want it renewed %s after the beginning, held by %q", step.name, lease.Spec, err, step.want, step.held)
		}
	}
}
