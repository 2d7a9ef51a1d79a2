package hub_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

func TestHubFollowsHeartbeats(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	exported := record("c")
	if err := w.admin.Create(t.Context(), exported); err != nil {
		t.Fatal(err)
	}
	stop := w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b", "c")
	mc, err := w.member("c")
	if err != nil {
		t.Fatal(err)
	}
	if s := mc.Status; s.LastHeartbeatTime != nil || s.ExportedServices == nil || *s.ExportedServices != 1 ||
		!meta.IsStatusConditionTrue(s.Conditions, clustersetv1alpha1.ConditionReady) {
		t.Errorf("status %+v", s)
	}

	w.beating <- []string{"a", "b"}
	w.awaitPhase(clustersetv1alpha1.MemberSuspect, "c")
	if c, err := w.member("c"); err != nil || c.Status.LastHeartbeatTime == nil {
		t.Errorf("a silent member's status: %+v, %v", c.Status, err)
	}
	w.awaitPhase(clustersetv1alpha1.MemberExpired, "c")
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(exported), exported); err != nil {
		t.Errorf("an expired member's record: %v", err)
	}

	// A hub process that restarts continues from what it left.
	stop()
	w.run()
	w.awaitPhase(clustersetv1alpha1.MemberExpired, "c")
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")

	w.beating <- []string{"a", "b", "c"}
	w.awaitPhase(clustersetv1alpha1.MemberReady, "c")
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(exported), exported); err != nil {
		t.Errorf("the record of a member that returned: %v", err)
	}

	// Nobody here finishes that deletion: the hub has no garbage collector.
	if err := w.admin.Delete(t.Context(), exported, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	w.beating <- []string{"a", "b"}
	w.awaitPhase(clustersetv1alpha1.MemberExpired, "c")
	kube.Eventually(t, func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(exported), exported); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the record of a member gone for long is still there: %w", err)
		}
		return nil
	})
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")
	w.awaitEvents("c", clustersetv1alpha1.ReasonHeartbeatMissed, clustersetv1alpha1.ReasonHeartbeatExpired, clustersetv1alpha1.ReasonHeartbeatSeen, clustersetv1alpha1.ReasonSilent)
}

// The MemberCluster of a cluster that has left stays for a while, to report that, and goes. Rule C25 of docs/spec/control-plane.md; test/e2e has the
// rest of a leave.
func TestWhoLeftIsKeptForAWhile(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")
	w.beating <- []string{"a"}
	if err := w.admin.Delete(t.Context(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		if mc, err := w.member("b"); err != nil || !mc.Left() || mc.Status.Phase != clustersetv1alpha1.MemberExpired {
			return fmt.Errorf("%+v, %w", mc.Status, err)
		}
		return nil
	})
	w.awaitEvents("b", clustersetv1alpha1.ReasonDeleted)
	kube.Eventually(t, func() error {
		if _, err := w.member("b"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
}

// If MemberClusters are deleted together with their CustomResourceDefinition, their clusters don't leave. Our finalizer doesn't block that
// deletion.
func TestMembersDontLeaveWithTheirKind(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b")
	if err := w.admin.Create(t.Context(), record("a")); err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	crd.SetName("memberclusters.clusterset.dev")
	if err := w.admin.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CustomResourceDefinition is still there: %w", err)
		}
		return nil
	})
	for _, o := range []client.Object{
		record("a"), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: api.MemberServiceAccount}},
	} {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Error(err)
		}
	}
}

func record(of string) *clustersetv1alpha1.ExportedService {
	return &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(of), Name: "web.shop"},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: "web",
			Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
		},
	}
}
