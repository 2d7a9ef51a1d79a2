package hub_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/join"
	"github.com/clusterset/clusterset/test/kube"
)

func TestHubFollowsHeartbeats(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	exported := &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("c"), Name: "web.shop"},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: "web",
			Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
		},
	}
	if err := w.admin.Create(t.Context(), exported); err != nil {
		t.Fatal(err)
	}
	stop := w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b", "c")
	mc, err := w.member("c")
	if err != nil {
		t.Fatal(err)
	}
	if s := mc.Status; s.AgentVersion != "v1.2.3" || s.LastHeartbeatTime == nil || s.ExportedServices == nil || *s.ExportedServices != 1 ||
		!meta.IsStatusConditionTrue(s.Conditions, clustersetv1alpha1.ConditionReady) {
		t.Errorf("status %+v", s)
	}

	w.beating <- []string{"a", "b"}
	w.awaitPhase(clustersetv1alpha1.MemberSuspect, "c")
	w.awaitPhase(clustersetv1alpha1.MemberExpired, "c")
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(exported), exported); err != nil {
		t.Errorf("an expired member's record: %v", err)
	}

	// A hub that restarts takes up what it left.
	stop()
	w.run()
	w.awaitPhase(clustersetv1alpha1.MemberExpired, "c")
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")

	w.beating <- []string{"a", "b", "c"}
	w.awaitPhase(clustersetv1alpha1.MemberReady, "c")
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(exported), exported); err != nil {
		t.Errorf("the record of a member that returned: %v", err)
	}

	w.beating <- []string{"a", "b"}
	w.awaitPhase(clustersetv1alpha1.MemberExpired, "c")
	kube.Eventually(t, 30*time.Second, func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(exported), exported); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the record of a member gone for long is still there: %w", err)
		}
		return nil
	})
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")
	w.awaitEvents("c", clustersetv1alpha1.ReasonHeartbeatMissed, clustersetv1alpha1.ReasonHeartbeatExpired, clustersetv1alpha1.ReasonHeartbeatSeen, "RecordsForgotten")
}

func TestHubThatIsCutOffLetsNobodyExpire(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	stop := w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b", "c")
	w.beating <- []string{"a"}
	w.awaitPhase(clustersetv1alpha1.MemberSuspect, "b", "c")
	paused := func(name string) error {
		mc, err := w.member(name)
		if err != nil || mc.Status.Phase != clustersetv1alpha1.MemberSuspect || !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused) {
			return fmt.Errorf("%s: %+v, %w", name, mc.Status, err)
		}
		return nil
	}
	kube.Eventually(t, 10*time.Second, func() error { return errors.Join(paused("b"), paused("c")) })
	w.awaitEvents("b", clustersetv1alpha1.ReasonMostMembersSilent)
	// A process that takes over keeps the brake on, and nobody sees it let go in between.
	stop()
	w.run()
	// Well beyond the time to expire. There is nothing to poll for: it is about what doesn't happen.
	silentFor := time.Now().Add(8 * time.Second)
	kube.Eventually(t, 20*time.Second, func() error {
		if err := errors.Join(paused("b"), paused("c")); err != nil {
			t.Fatal(err)
		}
		if time.Now().Before(silentFor) {
			return errors.New("still watching")
		}
		return nil
	})
	// b is back, so c alone is silent. It gets its time anew, and then expires.
	w.beating <- []string{"a", "b"}
	w.awaitPhase(clustersetv1alpha1.MemberReady, "b")
	w.awaitPhase(clustersetv1alpha1.MemberExpired, "c")
	mc, err := w.member("b")
	if err != nil || !meta.IsStatusConditionFalse(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused) {
		t.Errorf("b: %+v, %v", mc.Status, err)
	}
}

func TestMemberThatLeavesNeedsNoHeartbeat(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")
	w.beating <- []string{"a"}
	if _, err := join.Leave(t.Context(), w.plane.Config(), "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.member("b"); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the MemberCluster of a member that left: %v", err)
	}
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a")
}
