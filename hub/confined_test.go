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

// Records are read by pages, of clusters with networks only, and again when these haven't changed: what is exported later may be outside of them. Rule
// C48 of docs/spec/control-plane.md.
func TestLaterExportsAreComparedWithCIDRs(t *testing.T) {
	var read []string
	with := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: clustersetv1alpha1.MemberClusterSpec{CIDRs: []string{"10.1.0.0/16"}}}
	without := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	admin := fake.NewClientBuilder().WithScheme(connect.NewScheme()).WithStatusSubresource(with).WithObjects(with, without).Build()
	r := confiner{&reconciler{
		client: admin,
		live: interceptor.NewClient(admin, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := (&client.ListOptions{}).ApplyOptions(opts)
			if read = append(read, fmt.Sprintf("%T of %s", list, options.Namespace)); options.Limit == 0 {
				t.Error("all records at once")
			}
			return c.List(ctx, list, opts...)
		}}),
	}}
	for _, step := range []struct {
		exports []string // their addresses
		want    string
	}{
		{[]string{"10.1.0.1"}, ""},
		{[]string{"10.1.0.1", "10.2.0.1"}, "spec.cidrs leaves out 1 of 2 ClusterIPs that it exports, such as 10.2.0.1 of shop/web-1; other clusters don't use them"},
		{[]string{"10.1.0.1"}, ""},
	} {
		read = nil
		if err := admin.DeleteAllOf(t.Context(), &clustersetv1alpha1.ExportedService{}, client.InNamespace(api.MemberNamespace("a"))); err != nil {
			t.Fatal(err)
		}
		for i, ip := range step.exports {
			if err := admin.Create(t.Context(), exported(i, ip)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"a", "b"} {
			result, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			if want := map[string]time.Duration{"a": confineEvery}[name]; err != nil || result.RequeueAfter != want {
				t.Errorf("%q: %s is looked at again after %s, want %s; %v", step.exports, name, result.RequeueAfter, want, err)
			}
		}
		if want := []string{"*v1alpha1.ExportedServiceList of clusterset-member-a", "*v1alpha1.ExportedEndpointsList of clusterset-member-a"}; !slices.Equal(read, want) {
			t.Errorf("%q: read %q, want %q", step.exports, read, want)
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
			t.Errorf("%q: %q, want %q", step.exports, said, step.want)
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
