package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// With a real API server: selections, changes and outages.
func TestOfARealHub(t *testing.T) {
	plane := kube.Start(t)
	plane.Apply(t, crds.All()...)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clustersetv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	config := plane.Config()
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	create := func(all ...client.Object) {
		t.Helper()
		for _, o := range all {
			if err := admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []string{"a", "b", "c"} {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.MemberNamespace(c)}}, exported(c+"/shop/web", "1"), exported(c+"/bank/web", "2"),
			slice(c+"/shop/web", "0123456789abcdef-0", "10.0.0.1,10.0.0.2"), &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: c}})
	}
	s := startReal(t, config)
	has := func(what string, want ...string) {
		t.Helper()
		kube.Eventually(t, func() error {
			if got := (&script{Store: s}).has(); !slices.Equal(got, want) || !s.HasSynced() || !s.Watched() || len(s.Members()) != 3 {
				return fmt.Errorf("%s: it has %s", what, strings.Join(got, " "))
			}
			return nil
		})
	}
	const slice1 = "+0123456789abcdef-0:2"
	has("all", "a/bank/web@2", "a/shop/web@1"+slice1, "b/bank/web@2", "b/shop/web@1"+slice1, "c/bank/web@2", "c/shop/web@1"+slice1)
	apart := memberOf("b", true)
	patch := client.MergeFrom(apart.DeepCopy())
	apart.Spec = memberOf("b", false).Spec
	if err := admin.Patch(t.Context(), apart, patch); err != nil {
		t.Fatal(err)
	}
	has("peers", "a/bank/web@2", "a/shop/web@1"+slice1, "c/bank/web@2", "c/shop/web@1"+slice1)
	plane.KillAPIServer()
	kube.Eventually(t, func() error {
		if is := s.State(); is.Phase != Away {
			return fmt.Errorf("the hub is gone, and the state %v", is)
		}
		return nil
	})
	if err := plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := admin.Delete(t.Context(), exported("c/bank/web", "0")); err != nil {
		t.Fatal(err)
	}
	create(exported("c/shop/db", "3"))
	has("the hub was away", "a/bank/web@2", "a/shop/web@1"+slice1, "c/shop/db@3", "c/shop/web@1"+slice1)
}

func startReal(t *testing.T, config *rest.Config) *Store {
	t.Helper()
	over, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(config, over, Options{Cluster: "a"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}
