package random

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleettest"
)

// Leads finds an answer with an address inside another network, and one without an address although something can be reached.
func TestLeads(t *testing.T) {
	key := types.NamespacedName{Namespace: "shop", Name: "web"}
	xicheng, minhang := viewIn("core", "xicheng"), viewIn("edge", "minhang")
	named := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	minhang.exports[key] = &mcsv1beta1.ServiceExport{ObjectMeta: named}
	minhang.services[key] = &corev1.Service{ObjectMeta: named, Spec: corev1.ServiceSpec{
		ClusterIP: "10.102.0.9", ClusterIPs: []string{"10.102.0.9"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		ExternalIPs: []string{"192.0.2.48"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
	minhang.slices[key] = []discoveryv1.EndpointSlice{{
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.202.0.8"}}},
	}}
	w := &World{Clusters: []*View{xicheng, minhang}}
	for _, c := range []struct{ answer, external, want string }{
		{"192.0.2.48", "192.0.2.0/24", ""},
		{"10.102.0.9", "192.0.2.0/24", "10.102.0.9 is a pod or ClusterIP of minhang"},
		{"10.202.0.8", "192.0.2.0/24", "10.202.0.8 is a pod or ClusterIP of minhang"},
		{"", "192.0.2.0/24", "no address, and minhang (192.0.2.48) has a ready one"},
		{"", "192.0.2.0/28", ""}, // nothing that can be reached
	} {
		minhang.External = []string{c.external}
		z := &Zone{origin: "global", global: true, member: xicheng, Names: map[string]map[string][]string{}}
		if c.answer != "" {
			z.addAddress("web.shop.svc.global", c.answer)
		}
		err := w.leads(z)
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q with externalCIDRs %s: %v; want %q", c.answer, c.external, err, c.want)
		}
	}
}

func viewIn(network, name string) *View {
	return &View{
		Spec: fleettest.Spec{Name: name}, Network: network, In: []string{"cities"},
		namespaces: map[string]bool{"shop": true},
		services:   map[types.NamespacedName]*corev1.Service{},
		exports:    map[types.NamespacedName]*mcsv1beta1.ServiceExport{},
		slices:     map[types.NamespacedName][]discoveryv1.EndpointSlice{},
	}
}
