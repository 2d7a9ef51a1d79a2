package hub_test

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/kube"
)

// Networks that are valid and wrong are told of, in seconds, with how much they leave out, also while that is only a part. Rule C48 of
// docs/spec/control-plane.md.
func TestCIDRsThatLeaveOutExports(t *testing.T) {
	const name = "reims"
	w := newWorld(t, name)
	service := record(name)
	service.Spec.ClusterIPs = []string{"10.96.0.5"}
	service.Spec.Ports = []clustersetv1alpha1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}}
	if err := w.admin.Create(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	for i := range 120 { // more than a page
		e := &clustersetv1alpha1.ExportedEndpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(name), Name: api.ExportedEndpointsName("shop", "web", "web-x", i)},
			Spec: clustersetv1alpha1.ExportedEndpointsSpec{
				ServiceNamespace: "shop", ServiceName: "web", AddressType: discoveryv1.AddressTypeIPv4,
				Endpoints: []clustersetv1alpha1.Endpoint{{Addresses: []string{fmt.Sprintf("10.1.%d.5", i)}}},
			},
		}
		if err := w.admin.Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	w.run()
	for _, c := range []struct {
		cidrs []string
		want  string // of the condition's message; empty if there is none
	}{
		{[]string{"10.9.0.0/16"}, "spec.cidrs leaves out 120 of 120 endpoints and 1 of 1 ClusterIPs that it exports, such as 10.96.0.5 of shop/web; other clusters don't use them"},
		{[]string{"10.1.0.0/18", "10.96.0.0/16"}, "spec.cidrs leaves out 56 of 120 endpoints that it exports, such as 10.1."},
		{[]string{"10.1.0.0/16"}, ""}, // the ClusterIPs may be those of another cluster, too
	} {
		kube.Eventually(w, func() error { // the hub writes the status meanwhile
			mc, err := w.member(name)
			if err != nil {
				return err
			}
			mc.Spec.CIDRs = c.cidrs
			return w.admin.Update(w.Context(), mc)
		})
		kube.Eventually(w, func() error {
			mc, err := w.member(name)
			if err != nil {
				return err
			}
			said := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionWithinCIDRs)
			if (said == nil) != (c.want == "") || said != nil && (said.Status != metav1.ConditionFalse || !strings.HasPrefix(said.Message, c.want)) {
				return fmt.Errorf("with %q the condition is %+v, want %s", c.cidrs, said, c.want)
			}
			return nil
		})
	}
}
