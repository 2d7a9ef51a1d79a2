package peers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub"
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
		{"it leaves", func(mc *clustersetv1alpha1.MemberCluster) { mc.SetLeft(time.Now()) }, true},
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

// What fails for one member is returned, so that it is logged and tried again ever less often, although another member's RoleBinding has just
// changed, or is somebody else's.
func TestAConflictHidesNoOtherError(t *testing.T) {
	rbac := schema.GroupResource{Group: rbacv1.GroupName, Resource: "rolebindings"}
	quota := apierrors.NewForbidden(rbac, "b's", errors.New("a quota"))
	conflict := apierrors.NewConflict(rbac, "", errors.New("it has changed"))
	for name, c := range map[string]struct {
		foreign        bool // a's RoleBinding is somebody else's; else it has changed
		update, create error
		want           string // of the error
		again          time.Duration
	}{
		"a conflict":              {update: conflict, again: hub.RetryConflict},
		"two conflicts":           {update: conflict, create: apierrors.NewAlreadyExists(rbac, ""), again: hub.RetryConflict},
		"a conflict and an error": {update: conflict, create: quota, want: "a quota"},
		"foreign":                 {foreign: true},
		"foreign and a conflict":  {foreign: true, create: conflict, again: hub.RetryConflict},
		"foreign and an error":    {foreign: true, create: quota, want: "a quota"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{access.ReaderRole(true), peerRole()}
			for _, cluster := range []string{"a", "b"} {
				mc := member("x")
				mc.Name = cluster
				objects = append(objects, mc, access.ServiceAccount(cluster))
			}
			binding := access.PeersBinding("a")
			if c.foreign {
				binding.Labels = nil
			}
			on := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithObjects(append(objects, binding)...).
				WithStatusSubresource(&clustersetv1alpha1.MemberCluster{}).WithInterceptorFuncs(interceptor.Funcs{
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error { return c.update },
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return c.create },
			}).Build()
			r := &reconciler{client: on, granted: on, events: &events.FakeRecorder{}, now: time.Now}
			result, err := r.Reconcile(t.Context(), reconcile.Request{})
			if result.RequeueAfter != c.again || (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v", result, err)
			}
			said := &clustersetv1alpha1.MemberCluster{}
			if err := on.Get(t.Context(), client.ObjectKey{Name: "b"}, said); err != nil {
				t.Fatal(err)
			}
			if got := meta.IsStatusConditionFalse(said.Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced); got != c.foreign {
				t.Errorf("the MemberCluster says %+v", said.Status.Conditions)
			}
		})
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
