package clusterset

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/internal/index"
)

func TestGlueIsOfServicesThatLeadFromPort53ToTheServer(t *testing.T) {
	port := func(name string, number int32, protocol corev1.Protocol) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Port: number, Protocol: protocol}
	}
	endpoint := func(name string, number *int32, protocol corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: number, Protocol: &protocol}
	}
	dns := []corev1.ServicePort{port("dns", 53, corev1.ProtocolUDP), port("dns-tcp", 53, corev1.ProtocolTCP)}
	for _, c := range []struct {
		name  string
		ports []corev1.ServicePort
		to    []discoveryv1.EndpointPort
		want  bool
	}{
		{"port 53", dns, []discoveryv1.EndpointPort{endpoint("dns", ptr.To[int32](1053), corev1.ProtocolUDP)}, true},
		{"every port", dns, []discoveryv1.EndpointPort{endpoint("dns", nil, corev1.ProtocolUDP)}, true},
		{"another server block's port", dns, []discoveryv1.EndpointPort{endpoint("dns", ptr.To[int32](2053), corev1.ProtocolUDP)}, false},
		{"TCP alone", dns, []discoveryv1.EndpointPort{endpoint("dns-tcp", ptr.To[int32](1053), corev1.ProtocolTCP)}, false},
		{"another port of the Service", dns, []discoveryv1.EndpointPort{endpoint("metrics", ptr.To[int32](1053), corev1.ProtocolUDP)}, false},
		{"another number than 53", []corev1.ServicePort{port("dns", 5353, corev1.ProtocolUDP)}, []discoveryv1.EndpointPort{endpoint("dns", ptr.To[int32](1053), corev1.ProtocolUDP)}, false},
		{"no port", nil, nil, false},
	} {
		f := front{
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: c.ports, ClusterIPs: []string{"10.96.0.10", "fd00::10"}}},
			&discoveryv1.EndpointSlice{Ports: c.to},
		}
		self := selfAddrs{}
		missing := findGlue([]selfGlue{{&self, "1053", nil}}, []front{f})
		if found := len(self.load()) == 2; found != c.want || found == (len(missing) == 1) {
			t.Errorf("%s: found %v, want %v; missing %v", c.name, found, c.want, missing)
		}
	}
}

// Secondaries transfer the name server's addresses, so that a change of these needs a new serial. Rule A52 of docs/spec/answers.md.
func TestOtherGlueHasANewSerial(t *testing.T) {
	x := index.New(index.Options{})
	x.Publish()
	blocks := []selfGlue{{&selfAddrs{}, "1053", x}}
	blocks[0].addrs.storeFirst([]netip.Addr{netip.MustParseAddr("10.1.0.1")})
	serial := x.Snapshot().Serial()
	for _, c := range []struct {
		ips     []string
		changed uint32
	}{
		{[]string{"10.96.0.10", "fd00::10"}, 1},
		{[]string{"fd00::10", "10.96.0.10"}, 0},
		{nil, 0},
		{[]string{"10.96.0.11"}, 1},
	} {
		findGlue(blocks, []front{{
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}, ClusterIPs: c.ips}},
			&discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: ptr.To("dns"), Protocol: ptr.To(corev1.ProtocolUDP)}}},
		}})
		if got := x.Snapshot().Serial(); got != serial+c.changed {
			t.Errorf("%v: the serial goes from %d to %d", c.ips, serial, got)
		}
		serial = x.Snapshot().Serial()
	}
}

func TestBoundAddressesDoNotReplaceAServices(t *testing.T) {
	bound, service := []netip.Addr{netip.MustParseAddr("127.0.0.1")}, []netip.Addr{netip.MustParseAddr("10.96.0.10")}
	self := selfAddrs{}
	self.storeFirst(bound)
	self.store(service)
	self.storeFirst(bound)
	if got := self.load(); len(got) != 1 || got[0] != service[0] {
		t.Errorf("got %v, want %v", got, service)
	}
}
