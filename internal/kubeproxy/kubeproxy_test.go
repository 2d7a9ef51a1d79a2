package kubeproxy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
)

// slice returns an EndpointSlice with endpoints given as "address zone,zone". The prefix "-" marks one that isn't
// ready.
func slice(port string, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Labels: map[string]string{api.LabelSourceCluster: "beijing", api.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Protocol: ptr.To(corev1.ProtocolTCP)}},
	}
	for _, text := range endpoints {
		address, zones, _ := strings.Cut(text, " ")
		address, unready := strings.CutPrefix(address, "-")
		e := discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(!unready)}}
		for zone := range strings.FieldsFuncSeq(zones, func(r rune) bool { return r == ',' }) {
			if e.Hints == nil {
				e.Hints = &discoveryv1.EndpointHints{}
			}
			e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: zone})
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func addresses(all []Endpoint) string {
	var texts []string
	for _, e := range all {
		texts = append(texts, e.Addresses[0])
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

func TestWhatIsUsedInAZone(t *testing.T) {
	const none = api.HintNone
	for _, c := range []struct {
		name   string
		slices []*discoveryv1.EndpointSlice
		in     map[string]string // the addresses in use, by zone
	}{
		{"no hints", []*discoveryv1.EndpointSlice{slice("http", "10.1.0.1", "10.2.0.1")}, map[string]string{"a": "10.1.0.1 10.2.0.1", "": "10.1.0.1 10.2.0.1"}},
		{"each zone its own", []*discoveryv1.EndpointSlice{slice("http", "10.1.0.1 a", "10.2.0.1 b")}, map[string]string{"a": "10.1.0.1", "b": "10.2.0.1", "c": "10.1.0.1 10.2.0.1", "": "10.1.0.1 10.2.0.1"}},
		{"one for none", []*discoveryv1.EndpointSlice{slice("http", "10.1.0.1 a,b"), slice("http", "10.2.0.1 "+none)}, map[string]string{"a": "10.1.0.1", "b": "10.1.0.1"}},
		{"one without", []*discoveryv1.EndpointSlice{slice("http", "10.1.0.1 a"), slice("http", "10.2.0.1")}, map[string]string{"a": "10.1.0.1 10.2.0.1"}},
		{"the one without isn't ready", []*discoveryv1.EndpointSlice{slice("http", "10.1.0.1 a", "10.3.0.1 b", "-10.2.0.1")}, map[string]string{"a": "10.1.0.1"}},
		{"the zone's own isn't ready", []*discoveryv1.EndpointSlice{slice("http", "-10.1.0.1 a", "10.2.0.1 b")}, map[string]string{"a": "10.2.0.1", "b": "10.2.0.1"}},
		{"another port", []*discoveryv1.EndpointSlice{slice("http", "10.1.0.1 a", "10.2.0.1 b"), slice("grpc", "10.3.0.1")}, map[string]string{"a": "10.1.0.1"}},
	} {
		ports := Ready(c.slices)
		http := ports[Port{discoveryv1.AddressTypeIPv4, "http", corev1.ProtocolTCP}]
		for zone, want := range c.in {
			if got := addresses(In(http, zone)); got != want {
				t.Errorf("%s: in zone %q %s, want %s", c.name, zone, got, want)
			}
		}
	}
}
