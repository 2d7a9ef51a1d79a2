package desired_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/test/records"
)

// The slices' ports while the derived Service's ports have, or had until recently, other names. Rule D29 of docs/spec/data-path.md.
func TestFormerNames(t *testing.T) {
	for _, tc := range []struct {
		name            string
		service, slice  string // ports of the records
		derived, former string
		want            string // with the data path pods
		ips             string // with clusterips: the Service's own numbers
	}{
		{"the name that the Service has", "http:80", "http:8080", "web:80", "", "http:8080 web:8080", "http:80 web:80"},
		{"the name that it had", "http:80", "http:8080", "http:80", "web:80", "http:8080 web:8080", "http:80 web:80"},
		{"none that another port has now", "http:80 web:81", "http:8080 web:8081", "web:80 http:81", "", "http:8080 web:8081", "http:80 web:81"},
		{"none of a port that is gone", "http:80", "http:8080", "web:81", "old:82", "http:8080", "http:80"},
		{"none for another port", "http:80 grpc:81", "http:8080 grpc:8081", "web:80 grpc:81", "", "http:8080 web:8080 grpc:8081", "http:80 web:80 grpc:81"},
		{"the former one in the endpoints", "http:80", "web:8080", "web:80", "", "http:8080 web:8080", "http:80 web:80"},
		{"not if these have the new one too", "http:80", "web:8080 http:8081", "web:80", "", "http:8081 web:8081", "http:80 web:80"},
		{"a port that had no name", "http:80", ":8080", "tcp-80:80", "", "http:8080 tcp-80:8080", "http:80 tcp-80:80"},
		{"a port that has none any more", ":80", "http:8080", "http:80", "", "tcp-80:8080 http:8080", "tcp-80:80 http:80"},
		{"no former name, no guess", "http:80", "web:8080", "http:80", "", "", "http:80"},
	} {
		for _, path := range []desired.DataPath{desired.DataPathPods, desired.DataPathClusterIPs} {
			t.Run(tc.name+" with "+string(path), func(t *testing.T) {
				yaml := func(ports string) string {
					var all []string
					for _, p := range strings.Fields(ports) {
						name, number, _ := strings.Cut(p, ":")
						all = append(all, fmt.Sprintf("{name: '%s', port: %s, protocol: TCP}", name, number))
					}
					return strings.Join(all, ", ")
				}
				in := records.Input(t, path, strings.NewReplacer("{name: http, port: 80}", yaml(tc.service), "{name: http, port: 8080}", yaml(tc.slice)).
					Replace(records.Exported("a", "shop", "web", "10.1.0.1", "10.11.0.1")))
				in.Cluster, in.Derived = "b", service(corev1.IPFamilyPolicySingleStack, []corev1.IPFamily{v4}, "10.96.0.1")
				number := func(port string) (n int32) {
					_, _ = fmt.Sscan(port, &n)
					return n
				}
				for _, p := range strings.Fields(tc.derived) {
					name, port, _ := strings.Cut(p, ":")
					in.Derived.Spec.Ports = append(in.Derived.Spec.Ports, corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: number(port)})
				}
				for _, p := range strings.Fields(tc.former) {
					name, port, _ := strings.Cut(p, ":")
					in.Former = append(in.Former, desired.PortName{Protocol: corev1.ProtocolTCP, Port: number(port), Name: name})
				}
				out := desired.Compute(in)
				got, want := map[string]bool{}, map[string]bool{}
				for _, s := range out.Slices {
					if !desired.Routed(s) {
						continue
					}
					for _, p := range s.Ports {
						got[fmt.Sprint(*p.Name, ":", *p.Port)] = true
					}
				}
				ports := tc.want
				if path == desired.DataPathClusterIPs {
					ports = tc.ips
				}
				for _, p := range strings.Fields(ports) {
					want[p] = true
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("slices have %v, want %v", got, want)
				}
				if ports := out.Global.Spec.Endpoints[0].Ports; len(ports) > 0 {
					t.Errorf("the GlobalService's endpoint has the ports %v, want none, which is all", ports)
				}
			})
		}
	}
}
