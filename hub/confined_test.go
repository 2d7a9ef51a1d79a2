package hub

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/connect"
)

// Records are read when they may have changed, of clusters with networks only, and what a later export has outside of them is told within a
// minute; what a cluster changes all the time is told every ten minutes. Rule C48 of docs/spec/control-plane.md.
func TestWhenExportsAreComparedWithCIDRs(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var read []string
	with := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{"10.1.0.0/16"}}}
	without := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	admin := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithStatusSubresource(with).WithObjects(with, without).Build()
	r := &confiner{&reconciler{
		client: admin, now: func() time.Time { return now },
		live: interceptor.NewClient(admin, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := (&client.ListOptions{}).ApplyOptions(opts)
			if read = append(read, fmt.Sprintf("%T of %s", list, options.Namespace)); options.Limit == 0 {
				t.Error("all records at once")
			}
			return c.List(ctx, list, opts...)
		}}),
	}, map[string]comparison{}}
	exports := 0
	for _, step := range []struct {
		at   time.Duration
		is   []string // its exports then, by their addresses
		read bool
		want string
	}{
		{0, []string{"10.1.0.1"}, true, ""},
		{time.Minute, []string{"10.1.0.1"}, false, ""},
		{2 * time.Minute, []string{"10.1.0.1", "10.2.0.1"}, true, "spec.cidrs leaves out 1 of 2 ClusterIPs that it exports, such as 10.2.0.1 of shop/web-1; other clusters don't use them"},
		{3 * time.Minute, []string{"10.1.0.1"}, false, "spec.cidrs leaves out 1 of 2 ClusterIPs that it exports, such as 10.2.0.1 of shop/web-1; other clusters don't use them"},
		{12 * time.Minute, []string{"10.1.0.1"}, true, ""},
	} {
		for ; exports > 0; exports-- {
			if err := admin.Delete(t.Context(), exported(exports-1, "")); err != nil {
				t.Fatal(err)
			}
		}
		for _, ip := range step.is {
			if err := admin.Create(t.Context(), exported(exports, ip)); err != nil {
				t.Fatal(err)
			}
			exports++
		}
		now, read = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(step.at), nil
		for _, name := range []string{"a", "b"} {
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			if want := map[string]time.Duration{"a": time.Minute}[name]; err != nil || result.RequeueAfter != want {
				t.Errorf("after %s: %s is looked at again after %s, want %s; %v", step.at, name, result.RequeueAfter, want, err)
			}
		}
		var want []string
		if step.read {
			want = []string{"*v1alpha1.ExportedServiceList of clusterset-member-a", "*v1alpha1.ExportedEndpointsList of clusterset-member-a"}
		}
		if !slices.Equal(read, want) {
			t.Errorf("after %s: read %q, want %q", step.at, read, want)
		}
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := admin.Get(t.Context(), client.ObjectKey{Name: "a"}, mc); err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, c := range mc.Status.Conditions {
			said = c.Message
		}
		if said != step.want {
			t.Errorf("after %s: %q, want %q", step.at, said, step.want)
		}
	}
}

func exported(n int, ip string) *clustersetv1alpha1.ExportedService {
	name := fmt.Sprintf("web-%d", n)
	return &clustersetv1alpha1.ExportedService{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: api.ExportedServiceName("shop", name)},
		Spec: clustersetv1alpha1.ExportedServiceSpec{
			ServiceNamespace: "shop", ServiceName: name, Type: "ClusterSetIP", ClusterIPs: []string{ip}, ExportedAt: metav1.Now(),
			Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
		},
	}
}
