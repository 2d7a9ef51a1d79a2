package hub

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Records are read by pages, of clusters with networks only, and again when these haven't changed: what is exported later may be outside of them. Rule
// C48 of docs/spec/control-plane.md.
func TestLaterExportsAreComparedWithCIDRs(t *testing.T) {
	h := newFakeHub(t, append(member("a"), member("b")...)...)
	mc, _ := h.look("a")
	mc.Spec.CIDRs = []string{"10.1.0.0/16"}
	if err := h.Update(t.Context(), mc); err != nil {
		t.Fatal(err)
	}
	h.live = interceptor.NewClient(h.WithWatch, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		options := (&client.ListOptions{}).ApplyOptions(opts)
		if options.Namespace != api.MemberNamespace("a") || options.Limit != page {
			t.Errorf("it reads %+v", options)
		}
		if err := c.List(ctx, list, client.InNamespace(options.Namespace)); err != nil {
			return err
		}
		all, err := meta.ExtractList(list)
		from, _ := strconv.Atoi(options.Continue)
		to := min(from+page, len(all))
		if to < len(all) {
			list.SetContinue(strconv.Itoa(to))
		}
		return errors.Join(err, meta.SetList(list, all[from:to]))
	}})
	for i := range 2*page + 1 {
		address := fmt.Sprintf("10.1.1.%d", i)
		if i == 2*page {
			address = "10.2.1.1"
		}
		h.put(&clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: api.ExportedEndpointsName("shop", "web-0", "x", i)},
			Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				ServiceNamespace: "shop", ServiceName: "web-0", AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []clustersetv1alpha1.Endpoint{{Addresses: []string{address}}},
			},
		})
	}
	for n, want := range []string{
		"spec.cidrs leaves out 1 of 101 endpoints that it exports, such as 10.2.1.1 of shop/web-0; other clusters don't use them",
		"spec.cidrs leaves out 1 of 101 endpoints and 1 of 2 ClusterIPs that it exports, such as 10.2.0.1 of shop/web-1; other clusters don't use them",
	} {
		name := fmt.Sprintf("web-%d", n)
		h.put(&clustersetv1alpha1.ExportedService{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace("a"), Name: api.ExportedServiceName("shop", name)},
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: "shop", ServiceName: name, Type: "ClusterSetIP", ClusterIPs: []string{fmt.Sprintf("10.%d.0.1", n+1)}, ExportedAt: metav1.Now(),
				Ports: []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}},
			},
		})
		for _, member := range []string{"a", "b"} {
			result, err := confiner{h.reconciler}.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: member}})
			if err != nil || (result.RequeueAfter == confineEvery) != (member == "a") {
				t.Errorf("%s is looked at again after %s, %v", member, result.RequeueAfter, err)
			}
		}
		if err := h.Get(t.Context(), client.ObjectKeyFromObject(mc), mc); err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, c := range mc.Status.Conditions {
			if c.Type == clustersetv1alpha1.ConditionWithinCIDRs {
				said = c.Message
			}
		}
		if said != want {
			t.Errorf("after %d exports: %q, want %q", n+1, said, want)
		}
	}
}
