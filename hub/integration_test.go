package hub_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
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

// A cluster leaves when leave is run or its MemberCluster is deleted. Its rights and records are deleted, and its MemberCluster stays for a
// while to report that. The name can be used again at any time.
// Rule C25 of docs/spec/control-plane.md.
func TestMemberThatLeaves(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.run()
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "b", "c")
	w.beating <- []string{"a"}
	if err := w.admin.Create(t.Context(), record("c")); err != nil {
		t.Fatal(err)
	}
	if found, err := join.Leave(t.Context(), join.At(w.plane.Config()), "b"); err != nil || !found {
		t.Fatalf("leave: %v, %v", found, err)
	}
	if err := w.admin.Delete(t.Context(), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}); err != nil {
		t.Fatal(err)
	}
	left := func(name string) error {
		mc, err := w.member(name)
		if err != nil || !mc.Left() || mc.Status.Phase != clustersetv1alpha1.MemberExpired {
			return fmt.Errorf("%s: %+v, %w", name, mc.Status, err)
		}
		return nil
	}
	kube.Eventually(t, func() error { return errors.Join(left("b"), left("c")) })
	w.awaitEvents("c", clustersetv1alpha1.ReasonDeleted)
	in := metav1.ObjectMeta{Namespace: api.MemberNamespace("c")}
	account, binding := &corev1.ServiceAccount{ObjectMeta: in}, &rbacv1.RoleBinding{ObjectMeta: in}
	account.Name, binding.Name = api.MemberServiceAccount, api.MemberRole
	for _, o := range []client.Object{account, binding, record("c")} {
		if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T of the one who left: %v", o, err)
		}
	}
	// Two of three members have left. The pause doesn't count them as silent members: a is the only member, and it is alive.
	if mc, err := w.member("a"); err != nil || mc.Status.Phase != clustersetv1alpha1.MemberReady ||
		meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionExpiryPaused) != nil {
		t.Errorf("a: %+v, %v", mc.Status, err)
	}
	gone := func(name string) error {
		if _, err := w.member(name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("MemberCluster %s of one who left long ago: %w", name, err)
		}
		return nil
	}
	kube.Eventually(t, func() error { return gone("b") })
	if _, err := join.Join(t.Context(), join.At(w.plane.Config()), join.Options{Cluster: "c"}); err != nil {
		t.Errorf("joining under the name of one who left: %v", err)
	}
	w.beating <- []string{"a", "c"}
	w.awaitPhase(clustersetv1alpha1.MemberReady, "a", "c")
	if err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(account), account); err != nil {
		t.Errorf("account of the one who joined again: %v", err)
	}
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
