package v1alpha1

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
)

// endpoints returns a valid ExportedEndpoints in which Sanitized has nothing to fill in, changed by f.
func endpoints(f func(*ExportedEndpoints)) *ExportedEndpoints {
	e := &ExportedEndpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "clusterset-member-beijing", Name: api.ExportedEndpointsName("shop", "web", "web-abc", 0)},
		Spec: ExportedEndpointsSpec{
			ServiceNamespace: "shop",
			ServiceName:      "web",
			AddressType:      discoveryv1.AddressTypeIPv4,
			Endpoints: []Endpoint{
				{Addresses: []string{"10.1.0.1"}, Hostname: ptr("web-0"), Zone: ptr("beijing"), Conditions: discoveryv1.EndpointConditions{Ready: ptr(true)}},
				{Addresses: []string{"10.1.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false), Terminating: ptr(true)}},
			},
			Ports: []EndpointPort{{Name: ptr("http"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(8080))}},
		},
	}
	if f != nil {
		f(e)
	}
	return e
}

func TestExportedEndpointsSanitized(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*ExportedEndpoints)
		want   func(*ExportedEndpoints)
		errs   []string
	}{
		{"nothing wrong", nil, func(*ExportedEndpoints) {}, nil},
		{
			"another service's name",
			func(e *ExportedEndpoints) { e.Name = "web.shopping.x" },
			nil,
			[]string{"metadata.name: Invalid value: \"web.shopping.x\": must begin with web.shop."},
		},
		{
			"names of hosts",
			func(e *ExportedEndpoints) { e.Spec.AddressType = discoveryv1.AddressTypeFQDN },
			nil,
			[]string{"spec.addressType: Unsupported value: \"FQDN\": supported values: \"IPv4\", \"IPv6\""},
		},
		{
			"bad addresses, and an endpoint without any left",
			func(e *ExportedEndpoints) {
				e.Spec.Endpoints[0].Addresses = []string{"fd00::1", "10.1.0.1", "10.1.0.1", "127.0.0.1"}
				e.Spec.Endpoints = append(e.Spec.Endpoints,
					Endpoint{Addresses: []string{"::ffff:127.0.0.1"}}, Endpoint{})
			},
			func(*ExportedEndpoints) {},
			[]string{
				"spec.endpoints[0].addresses[0]: Invalid value: \"fd00::1\": must be an IPv4 address",
				"spec.endpoints[0].addresses[3]: Invalid value: \"127.0.0.1\"",
				"spec.endpoints[2].addresses[0]: Invalid value: \"::ffff:127.0.0.1\"",
				"spec.endpoints[3].addresses: Required value",
			},
		},
		{
			"an IPv4 address written as IPv6 is no IPv6 address",
			func(e *ExportedEndpoints) {
				e.Spec.AddressType = discoveryv1.AddressTypeIPv6
				e.Spec.Endpoints = []Endpoint{{Addresses: []string{"::ffff:10.1.0.1", "FD00::1"}}}
			},
			func(e *ExportedEndpoints) {
				e.Spec.AddressType = discoveryv1.AddressTypeIPv6
				e.Spec.Endpoints = []Endpoint{{Addresses: []string{"fd00::1"}}}
			},
			[]string{"spec.endpoints[0].addresses[0]: Invalid value: \"::ffff:10.1.0.1\": must be an IPv6 address"},
		},
		{
			"a bad hostname or zone costs only that",
			func(e *ExportedEndpoints) {
				e.Spec.Endpoints[0].Hostname, e.Spec.Endpoints[0].Zone = ptr("Web_0"), ptr("a\nb")
				e.Spec.Endpoints[1].Hostname, e.Spec.Endpoints[1].Zone = ptr(""), ptr("")
			},
			func(e *ExportedEndpoints) { e.Spec.Endpoints[0].Hostname, e.Spec.Endpoints[0].Zone = nil, nil },
			[]string{"spec.endpoints[0].hostname: Invalid value", "spec.endpoints[0].zone: Invalid value"},
		},
		{
			"bad ports",
			func(e *ExportedEndpoints) {
				e.Spec.Ports = append(e.Spec.Ports,
					EndpointPort{Name: ptr("any")},
					EndpointPort{Port: ptr(int32(1))},
					EndpointPort{Name: ptr("http"), Port: ptr(int32(2))},
					EndpointPort{Name: ptr("alt"), Port: ptr(int32(8080)), AppProtocol: ptr("a b")})
			},
			func(e *ExportedEndpoints) {
				e.Spec.Ports = append(e.Spec.Ports,
					EndpointPort{Name: ptr("alt"), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(8080))})
			},
			[]string{
				"spec.ports[1].port: Required value",
				"spec.ports[2].name: Required value",
				"spec.ports[3].name: Duplicate value: \"http\"",
				"spec.ports[4].appProtocol: Invalid value",
			},
		},
		{
			"external addresses with what is behind",
			func(e *ExportedEndpoints) { e.Spec.External, e.Spec.Behind = true, 7 },
			func(e *ExportedEndpoints) { e.Spec.External, e.Spec.Behind = true, 7 },
			nil,
		},
		{
			"nothing is behind endpoints themselves",
			func(e *ExportedEndpoints) { e.Spec.Behind = 7 },
			func(*ExportedEndpoints) {},
			[]string{"spec.behind: Invalid value: 7: must be 0 to 100000, and 0 unless external is set"},
		},
		{
			"fewer than none behind",
			func(e *ExportedEndpoints) { e.Spec.External, e.Spec.Behind = true, -1 },
			func(e *ExportedEndpoints) { e.Spec.External = true },
			[]string{"spec.behind: Invalid value: -1"},
		},
		{
			"an unnamed port of its own",
			func(e *ExportedEndpoints) { e.Spec.Ports = []EndpointPort{{Port: ptr(int32(1))}} },
			func(e *ExportedEndpoints) {
				e.Spec.Ports = []EndpointPort{{Name: ptr(""), Protocol: ptr(corev1.ProtocolTCP), Port: ptr(int32(1))}}
			},
			nil,
		},
		{
			"too many endpoints",
			func(e *ExportedEndpoints) {
				for range api.MaxExportedEndpoints {
					e.Spec.Endpoints = append(e.Spec.Endpoints, Endpoint{Addresses: []string{"10.1.0.3"}})
				}
			},
			func(e *ExportedEndpoints) {
				for range api.MaxExportedEndpoints - 2 {
					e.Spec.Endpoints = append(e.Spec.Endpoints, Endpoint{Addresses: []string{"10.1.0.3"}})
				}
			},
			[]string{"spec.endpoints: Too many: 102: must have at most 100 items"},
		},
		{
			"too many addresses",
			func(e *ExportedEndpoints) {
				e.Spec.Endpoints[0].Addresses = []string{"10.1.0.1", "10.1.1.1", "10.1.2.1", "10.1.3.1", "10.1.4.1"}
			},
			func(e *ExportedEndpoints) {
				e.Spec.Endpoints[0].Addresses = []string{"10.1.0.1", "10.1.1.1", "10.1.2.1", "10.1.3.1"}
			},
			[]string{"spec.endpoints[0].addresses: Too many: 5: must have at most 4 items"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want *ExportedEndpoints
			if tc.want != nil {
				want = endpoints(tc.want)
			}
			sanitizes(t, endpoints(tc.change), want, tc.errs)
		})
	}
}
