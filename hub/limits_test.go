package hub_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/internal/connect"
	"github.com/clusterset/clusterset/test/kube"
)

// The API server runs alone, without a controller that counts quotas. What a member's credentials can write is bounded nevertheless. The
// API server's response tells the writer, and the hub process reports it to everyone. Rule C54 of docs/spec/control-plane.md.
func TestMemberCannotFillTheHub(t *testing.T) {
	w := newWorld(t, "a")
	w.maxServices = 3
	kubeconfig, err := join.Join(t.Context(), join.At(w.plane.Config()), join.Options{Cluster: "thief"})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	thief, err := connect.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	w.beating <- []string{"a", "thief"}
	w.run()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("thief"), Name: api.RecordsQuota}}
	kube.Eventually(t, func() error { // until then nothing is counted
		err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		if err == nil && len(quota.Status.Used) != 2 {
			err = fmt.Errorf("the quota counts %v", quota.Status)
		}
		return err
	})
	service := func(member string, i int) *clustersetv1alpha1.ExportedService {
		name := fmt.Sprintf("s%d", i)
		return &clustersetv1alpha1.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(member), Name: name + ".shop"},
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: "shop", ServiceName: name, Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.Now(),
			},
		}
	}
	endpoints := func(i int) *clustersetv1alpha1.ExportedEndpoints {
		return &clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("thief"), Name: fmt.Sprintf("s0.shop.x-%d", i)},
			Spec:       clustersetv1alpha1.ExportedEndpointsSpec{ServiceNamespace: "shop", ServiceName: "s0", AddressType: discoveryv1.AddressTypeIPv4},
		}
	}
	if most := quota.Spec.Hard["count/exportedservices.clusterset.dev"]; most.Value() != 3+hub.MaxWithdrawn {
		t.Errorf("a member may have %v services", most)
	}
	for i := range 3 {
		if err := thief.Create(t.Context(), service("thief", i)); err != nil {
			t.Errorf("service %d: %v", i, err)
		}
	}
	for i := range 40 {
		err := thief.Create(t.Context(), endpoints(i))
		if i < 30 && err != nil || i >= 30 && !apierrors.IsForbidden(err) {
			t.Errorf("endpoints %d: %v", i, err)
		}
	}
	if err := w.admin.Create(t.Context(), service("a", 0)); err != nil {
		t.Errorf("another member's: %v", err)
	}
	kube.Eventually(t, func() error {
		mc, err := w.member("thief")
		if err != nil || !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionLimited) {
			return fmt.Errorf("%+v, %w", mc.Status, err)
		}
		return nil
	})
	w.awaitEvents("thief", clustersetv1alpha1.ReasonTooManyServices)

	// Deleting records makes room for others.
	if err := thief.Delete(t.Context(), service("thief", 1)); err != nil {
		t.Fatal(err)
	}
	if err := thief.Delete(t.Context(), endpoints(7)); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error { return client.IgnoreAlreadyExists(thief.Create(t.Context(), endpoints(50))) })
	kube.Eventually(t, func() error { return client.IgnoreAlreadyExists(thief.Create(t.Context(), service("thief", 9))) })

	// The member can't raise its own limits.
	raised := quota.DeepCopy()
	raised.Spec.Hard = nil
	if err := thief.Update(t.Context(), raised); !apierrors.IsForbidden(err) {
		t.Errorf("updating the quota: %v", err)
	}
	if err := thief.Delete(t.Context(), quota); !apierrors.IsForbidden(err) {
		t.Errorf("deleting the quota: %v", err)
	}
}

// A kube-controller-manager, which most hubs have, fills in the quota's limits at once and counts only minutes later. Until
// someone has counted, the API server refuses all records.
func TestAControllerManagerDoesNotHoldUpTheFirstExports(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, kube.Start(t, kube.WithControllerManager()), "a")
	// The test makes the quota in place of the hub process, and the kube-controller-manager sees it first.
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: api.RecordsQuota}}
	quota.Spec.Hard = corev1.ResourceList{
		"count/exportedservices.clusterset.dev": resource.MustParse("5k"), "count/exportedendpoints.clusterset.dev": resource.MustParse("50k"),
	}
	if err := w.admin.Create(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	kube.Eventually(t, func() error {
		err := w.admin.Get(t.Context(), client.ObjectKeyFromObject(quota), quota)
		if err == nil && len(quota.Status.Hard) != 2 {
			err = fmt.Errorf("the quota's status is %v", quota.Status)
		}
		return err
	})
	w.run()
	kube.Eventually(t, func() error { return w.admin.Create(t.Context(), record("a")) })
}
