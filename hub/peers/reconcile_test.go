package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/internal/connect"
)

// A reconcile looks at all members, so only changes that affect rights and conditions may cause one.
func TestOtherChangesCauseNoReconcile(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*clustersetv1alpha1.MemberCluster)
		want   bool
	}{
		{"its last heartbeat", func(mc *clustersetv1alpha1.MemberCluster) { mc.Status.LastHeartbeatTime = new(metav1.Now()) }, false},
		{"its exports", func(mc *clustersetv1alpha1.MemberCluster) { mc.Status.ExportedServices = new(int32(7)) }, false},
		{"its zone", func(mc *clustersetv1alpha1.MemberCluster) { mc.Spec.Zone = "z" }, false},
		{"its communities", func(mc *clustersetv1alpha1.MemberCluster) { mc.Spec.Communities = []string{"y"} }, true},
		{"it is silent", func(mc *clustersetv1alpha1.MemberCluster) { mc.Status.Phase = clustersetv1alpha1.MemberSuspect }, true},
		{"it leaves", func(mc *clustersetv1alpha1.MemberCluster) { mc.DeletionTimestamp = new(metav1.Now()) }, true},
		{"somebody else says that communities are enforced", func(mc *clustersetv1alpha1.MemberCluster) {
			mc.Status.Conditions = []metav1.Condition{{Type: clustersetv1alpha1.ConditionCommunitiesEnforced}}
		}, true},
	} {
		was := member("x")
		was.Name = "a"
		is := was.DeepCopy()
		c.change(is)
		if got := memberChanged().Update(event.UpdateEvent{ObjectOld: was, ObjectNew: is}); got != c.want {
			t.Errorf("%s: reconcile %t, want %t", c.name, got, c.want)
		}
	}
}

// BenchmarkReconcile measures the cost of each change of communities for the hub process, apart from its writes: comparing all rights and
// conditions of 250 members with what they should be.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []int{0, 5, 10, 50, 250} {
		b.Run(fmt.Sprintf("250 members in communities of %d", size), func(b *testing.B) {
			r := settled(b, 250, size)
			b.ReportAllocs()
			for b.Loop() {
				if result, err := r.Reconcile(context.Background(), reconcile.Request{}); err != nil || result != (reconcile.Result{}) {
					b.Fatal(result, err)
				}
			}
		})
	}
}

// settled returns a reconciler of members in communities of that size, or in no communities if size is 0. All rights and conditions are
// already right, and the reconciler can't write.
func settled(tb testing.TB, members, size int) *reconciler {
	s := &state{
		members: map[string]*clustersetv1alpha1.MemberCluster{}, accounts: map[string]bool{}, reader: access.ReaderRole(size > 0),
	}
	objects := []client.Object{s.reader, peerRole()}
	for i := range members {
		mc := member()
		mc.Name = fmt.Sprintf("cluster-%d", i)
		if size > 0 {
			mc.Spec.Communities = []string{fmt.Sprintf("community-%d", i/size)}
		}
		s.members[mc.Name], s.accounts[mc.Name] = mc, true
		ours := map[string]string{api.LabelManagedBy: api.ManagedByJoin, api.LabelCluster: mc.Name}
		objects = append(objects, mc,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(mc.Name), Name: api.MemberServiceAccount, Labels: ours}},
		)
	}
	for _, mc := range s.members {
		if size > 0 {
			mc.Status.Conditions = []metav1.Condition{s.condition(mc, &access.ForeignError{})}
		}
	}
	for _, binding := range s.bindings() {
		objects = append(objects, binding)
	}
	held := cacheOf(tb, objects)
	scheme := connect.NewScheme()
	c, err := client.New(&rest.Config{}, client.Options{Scheme: scheme, HTTPClient: http.DefaultClient, Mapper: testrestmapper.TestOnlyStaticRESTMapper(scheme)})
	if err != nil {
		tb.Fatal(err)
	}
	only := reading{c, held} // it has no API server to write to
	return &reconciler{client: only, granted: only, now: time.Now}
}

// cacheOf returns a cache of the objects, without an API server.
func cacheOf(tb testing.TB, objects []client.Object) cache.Cache {
	scheme := connect.NewScheme()
	c, err := cache.New(&rest.Config{}, cache.Options{
		Scheme: scheme, HTTPClient: http.DefaultClient, Mapper: testrestmapper.TestOnlyStaticRESTMapper(scheme),
		NewInformer: func(_ toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			list := &metav1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			for _, o := range objects {
				if reflect.TypeOf(o) == reflect.TypeOf(kind) {
					list.Items = append(list.Items, runtime.RawExtension{Object: o})
				}
			}
			return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
				ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
				WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
					if options.SendInitialEvents != nil {
						return nil, errors.New("it lists")
					}
					return watch.NewFake(), nil
				},
			}, kind, resync, indexers)
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = c.Start(ctx) }()
	tb.Cleanup(func() { cancel(); <-stopped })
	for !c.WaitForCacheSync(ctx) { // false until it is started
		<-time.After(time.Millisecond)
	}
	for _, kind := range []client.Object{
		&clustersetv1alpha1.MemberCluster{}, &corev1.ServiceAccount{}, &coordinationv1.Lease{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{},
	} {
		if _, err := c.GetInformer(ctx, kind); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}
