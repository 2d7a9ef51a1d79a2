package desired_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/test/records"
)

// steered returns how kube-proxy is told to use each endpoint: "10.1.0.1 a,b" is an endpoint with its hints, and the prefix "-" marks one
// in a slice that kube-proxy doesn't read. An endpoint in several slices is listed with the ports of each.
func steered(out desired.Output) []string {
	ports := map[string]int{}
	for _, s := range out.Slices {
		for _, e := range s.Endpoints {
			ports[e.Addresses[0]]++
		}
	}
	var all []string
	for _, s := range out.Slices {
		routed, service := records.Routed(s), s.Labels[api.LabelKubernetesServiceName]
		if want := map[bool]string{true: "derived-97375646b1deb3d2", false: "derived-97375646b1deb3d2-unused"}[routed]; service != want {
			all = append(all, fmt.Sprintf("%s leads to %q, want %q", s.Name, service, want))
		}
		for _, e := range s.Endpoints {
			text := e.Addresses[0]
			if ports[text] > 1 {
				text += ":" + *s.Ports[0].Name
			}
			if !routed {
				text = "-" + text
			}
			if e.Hints != nil {
				var zones []string
				for _, z := range e.Hints.ForZones {
					zones = append(zones, strings.TrimSuffix(z.Name, ".clusterset.dev"))
				}
				text += " " + strings.Join(zones, ",")
			}
			all = append(all, text)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(strings.TrimPrefix(a, "-"), strings.TrimPrefix(b, "-")) })
	return all
}

// member returns a MemberCluster. more is a part of its spec, phase its status.
func member(name, zone, region, phase, more string) string {
	return fmt.Sprintf("apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: %s}\nspec: {zone: %q, region: %q%s}\nstatus: {phase: %q}\n",
		name, zone, region, more, phase)
}

// endpoints sets the endpoints of a cluster's record, given as "<address>@<zone>". The prefix "!" marks one that isn't ready.
func endpoints(in *records.Service, cluster string, of ...string) {
	for _, e := range in.Endpoints {
		if e.Namespace != api.MemberNamespace(cluster) {
			continue
		}
		e.Spec.Endpoints = nil
		for _, text := range of {
			text, notReady := strings.CutPrefix(text, "!")
			ready := !notReady
			address, zone, _ := strings.Cut(text, "@")
			endpoint := clustersetv1alpha1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
			if zone != "" {
				endpoint.Zone = &zone
			}
			e.Spec.Endpoints = append(e.Spec.Endpoints, endpoint)
		}
	}
}

// zones returns nodes in n zones.
func zones(n int) (all []topology.Location) {
	for i := range n {
		all = append(all, topology.Location{Zone: "z" + strconv.Itoa(i)})
	}
	return all
}

// TestSteering imports into a, which has nodes in zones a1 and a2, from a itself, from b in the same region, and from c far away (D2, D6,
// D20, D21, D22, D23, D24, D25 and D30 of docs/spec/data-path.md). Which endpoints are chosen is agree_test.go's.
func TestSteering(t *testing.T) {
	base := func(t *testing.T, more ...string) records.Service {
		in := records.Input(t, desired.DataPathPods, append([]string{
			records.Exported("a", "shop", "web", "10.1.0.1", "10.1.1.1"),
			records.Exported("b", "shop", "web", "10.2.0.1", "10.2.1.1"),
			records.Exported("c", "shop", "web", "10.3.0.1", "10.3.1.1"),
			member("a", "", "north", "Ready", ""), member("b", "b1", "north", "Ready", ""), member("c", "c1", "south", "Ready", ""),
		}, more...)...)
		in.Cluster, in.Nodes = "a", []topology.Location{{Zone: "a1"}, {Zone: "a2"}}
		endpoints(&in, "a", "10.1.1.1@a1", "10.1.1.2@a2")
		return in
	}
	for _, c := range []struct {
		name   string
		change func(*records.Service)
		more   []string
		want   []string
	}{
		{"each zone its own", nil, nil, []string{"10.1.1.1 a1", "10.1.1.2 a2", "10.2.1.1 none", "10.3.1.1 none"}},
		{
			"none prefers nothing, with as many zones as hints", func(in *records.Service) { // D21
				in.Policy.Prefer, in.Nodes = []topology.Tier{}, zones(8)
				endpoints(in, "c")
			}, nil,
			[]string{"10.1.1.1 z0,z1,z2,z3,z4,z5,z6,z7", "10.1.1.2 z0,z1,z2,z3,z4,z5,z6,z7", "10.2.1.1 z0,z1,z2,z3,z4,z5,z6,z7"},
		},
		{
			"an endpoint for more zones than it can have hints: labels", func(in *records.Service) { // D22, D24
				in.Nodes = zones(9)
			}, nil, []string{"10.1.1.1", "10.1.1.2", "10.2.1.1", "-10.3.1.1"},
		},
		{
			"more zones than that, but each endpoint for less", func(in *records.Service) { // D22
				in.Nodes = zones(9)
				endpoints(in, "a", "10.1.1.1@z0", "10.1.1.2@z1")
			}, nil,
			[]string{"10.1.1.1 z0,z2,z3,z4,z5,z6,z7,z8", "10.1.1.2 z1,z2,z3,z4,z5,z6,z7,z8", "10.2.1.1 z2,z3,z4,z5,z6,z7,z8", "10.3.1.1 none"},
		},
		{
			"nothing is ready", func(in *records.Service) {
				endpoints(in, "a", "!10.1.1.1")
				endpoints(in, "b", "!10.2.1.1")
				endpoints(in, "c")
			}, nil, []string{"10.1.1.1", "10.2.1.1"},
		},
		{
			"beyond the boundary nothing is routed", func(in *records.Service) { in.Policy.Boundary = topology.Region }, nil,
			[]string{"10.1.1.1 a1", "10.1.1.2 a2", "10.2.1.1 none", "-10.3.1.1"},
		},
		{
			"a boundary within a slice cuts it",
			func(in *records.Service) {
				in.Policy.Boundary = topology.Zone
				endpoints(in, "b", "10.2.1.1@a1", "10.2.1.2@b1")
			}, nil,
			[]string{"10.1.1.1 a1", "10.1.1.2 a2", "10.2.1.1 a1", "-10.2.1.2", "-10.3.1.1"},
		},
		{
			"Expired is not routed while others are ready", nil,
			[]string{member("b", "b1", "north", "Expired", "")},
			[]string{"10.1.1.1 a1", "10.1.1.2 a2", "-10.2.1.1", "10.3.1.1 none"},
		},
		{
			"one that is back waits", func(in *records.Service) {
				endpoints(in, "a")
				in.Returning = map[string]bool{"b": true}
			}, nil,
			[]string{"10.2.1.1 none", "10.3.1.1 a1,a2"},
		},
		{
			"nodes without zones: labels", func(in *records.Service) { in.Nodes = []topology.Location{{}, {Zone: "a1"}} },
			[]string{member("a", "a1", "north", "Ready", "")},
			[]string{"10.1.1.1", "-10.1.1.2", "-10.2.1.1", "-10.3.1.1"},
		},
		{
			"labels alone: what no zone would choose is hidden", func(in *records.Service) { in.LabelsOnly = true }, nil, // D30
			[]string{"10.1.1.1", "10.1.1.2", "-10.2.1.1", "-10.3.1.1"},
		},
		{
			"nodes without zones, nothing ready: all that might be", func(in *records.Service) {
				in.Nodes = nil
				in.Policy.Boundary = topology.Region
				endpoints(in, "a", "!10.1.1.1")
				endpoints(in, "b", "!10.2.1.1")
			}, nil,
			[]string{"10.1.1.1", "10.2.1.1", "-10.3.1.1"},
		},
		{
			"a port that only some have is steered by itself", func(in *records.Service) {
				name, port := "admin", int32(9000)
				for i, cluster := range []string{"a", "b", "c"} {
					if cluster != "a" {
						in.Services[i].Spec.Ports = append(in.Services[i].Spec.Ports, in.Services[i].Spec.Ports[0])
						in.Services[i].Spec.Ports[1].Name, in.Services[i].Spec.Ports[1].Port = name, 9000
						in.Endpoints[i].Spec.Ports = append(in.Endpoints[i].Spec.Ports, clustersetv1alpha1.EndpointPort{Name: &name, Port: &port})
					}
				}
			}, nil,
			[]string{"10.1.1.1 a1", "10.1.1.2 a2", "10.2.1.1:admin a1,a2", "10.2.1.1:http none", "10.3.1.1 none"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := base(t, c.more...)
			if c.change != nil {
				c.change(&in)
			}
			out := in.Compute()
			if got := steered(out); !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
			for _, s := range out.Slices {
				checkSlice(t, s)
			}
		})
	}
}

// However differently the ports of a record are used, it takes four times its room at most, and each port keeps all of its endpoints. Rule D25.
func TestPortsDoNotMultiplySlices(t *testing.T) {
	in := records.Input(t, desired.DataPathPods, records.Exported("a", "shop", "web", "10.1.0.1", "10.1.1.1"),
		records.Exported("b", "shop", "web", "10.2.0.1", "10.2.1.1"), member("a", "", "north", "Ready", ""), member("b", "", "north", "Ready", ""))
	in.Cluster, in.Nodes = "a", zones(6)
	exported, main := in.Services[1], in.Endpoints[1]
	exported.Spec.Ports, main.Spec.Ports = nil, nil
	for j := range 64 { // port j has endpoints in the zones that are set in j, besides the one of all ports
		name, port := fmt.Sprint("p", j), int32(8000+j)
		exported.Spec.Ports = append(exported.Spec.Ports, clustersetv1alpha1.ServicePort{Name: name, Port: port, Protocol: "TCP"})
		has := clustersetv1alpha1.EndpointPort{Name: &name, Port: &port}
		main.Spec.Ports = append(main.Spec.Ports, has)
		helper := main.DeepCopy()
		helper.Name, helper.Spec.Ports, helper.Spec.Endpoints = fmt.Sprintf("web.shop.y%d-0", j), []clustersetv1alpha1.EndpointPort{has}, nil
		for i := range 6 {
			if zone := fmt.Sprint("z", i); j>>i&1 == 1 {
				helper.Spec.Endpoints = append(helper.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{fmt.Sprintf("10.2.%d.%d", 2+j, i)}, Zone: &zone})
			}
		}
		in.Endpoints = append(in.Endpoints, helper)
	}
	pieces, ports := 0, map[string]bool{}
	for _, s := range in.Compute().Slices {
		if !records.Routed(s) || !slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Addresses[0] == "10.2.1.1" }) {
			continue
		}
		pieces++
		for _, p := range s.Ports {
			if ports[*p.Name] {
				t.Errorf("port %s is in several slices", *p.Name)
			}
			ports[*p.Name] = true
		}
	}
	if pieces != api.MaxPieces || len(ports) != 64 {
		t.Errorf("the endpoint of 64 ports is in %d slices with %d ports, want %d with all", pieces, len(ports), api.MaxPieces)
	}
}

// If clusters are equally good and one of them is drained, becomes Suspect or comes back, only its own slices change. With many clusters, a
// change of one must not cause a write for each of the others.
func TestAWordAboutOneClusterChangesItsSlicesAlone(t *testing.T) {
	of := func(b string) map[string]*discoveryv1.EndpointSlice {
		in := records.Input(t, desired.DataPathPods,
			records.Exported("a", "shop", "web", "10.1.0.1", "10.1.1.1"), records.Exported("b", "shop", "web", "10.2.0.1", "10.2.1.1"),
			records.Exported("c", "shop", "web", "10.3.0.1", "10.3.1.1"), b)
		in.Cluster, in.Nodes = "a", []topology.Location{{Zone: "a1"}, {Zone: "a2"}}
		all := map[string]*discoveryv1.EndpointSlice{}
		for _, s := range in.Compute().Slices {
			all[s.Labels[api.LabelSourceCluster]] = s
		}
		return all
	}
	healthy := of(member("b", "", "", "Ready", ""))
	for _, word := range []string{member("b", "", "", "Ready", ", drain: true"), member("b", "", "", "Suspect", "")} {
		now := of(word)
		for cluster, was := range healthy {
			if same := equality.Semantic.DeepEqual(was, now[cluster]); same == (cluster == "b") {
				t.Errorf("%s\nchanges %s's slice: %t", word, cluster, !same)
			}
		}
	}
}

// A cluster whose Service has both families, and its pods only one yet, gets no traffic of the other one. Rules D6 and D7.
func TestClusterIPOfAFamilyWithoutEndpointsIsNotUsed(t *testing.T) {
	in := records.Input(t, desired.DataPathClusterIPs,
		records.Exported("b", "shop", "web", "10.2.0.1", "10.2.1.1"), records.Exported("c", "shop", "web", "10.3.0.1", "10.3.1.1"),
		member("a", "b1", "north", "Ready", ""), member("b", "b1", "north", "Ready", ""), member("c", "c1", "north", "Ready", ""))
	in.Cluster, in.Nodes = "a", []topology.Location{{Zone: "b1"}}
	for i, ip := range []string{"fd00:2::1", "fd00:3::1"} {
		in.Services[i].Spec.IPFamilies, in.Services[i].Spec.ClusterIPs = []corev1.IPFamily{v4, v6}, append(in.Services[i].Spec.ClusterIPs, ip)
	}
	chosen := func(want ...string) {
		t.Helper()
		if got := chosenByKubeProxy(in.Compute().Slices, "b1"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	chosen("10.2.0.1", "fd00:2::1") // no cluster has endpoints of IPv6
	ipv6 := in.Endpoints[1].DeepCopy()
	ipv6.Name, ipv6.Spec.AddressType, ipv6.Spec.Endpoints[0].Addresses = "web.shop.ipv6-0", discoveryv1.AddressTypeIPv6, []string{"fd00:3:1::1"}
	in.Endpoints = append(in.Endpoints, ipv6)
	chosen("10.2.0.1", "fd00:3::1")
	ips := in.Services[1].Spec.ClusterIPs
	in.Services[1].Spec.ClusterIPs = ips[:1] // nothing leads to its endpoint of IPv6
	chosen("10.2.0.1", "fd00:2::1")
	in.Services[1].Spec.ClusterIPs, ipv6.Spec.Endpoints[0].Conditions.Ready = ips, new(bool)
	chosen("10.2.0.1", "fd00:2::1")
}

// A cluster's own endpoints and ClusterIPs are the local ones, whatever the hub's records contain. With --data-path=clusterips, its
// ClusterSetIP leads to its pods and not to its ClusterIP, which would be a second translation. Rule D9 of docs/spec/data-path.md.
func TestLocalFirst(t *testing.T) {
	for path, want := range map[desired.DataPath][]string{
		desired.DataPathPods:       {"10.1.1.7 on n7", "10.2.1.1"},
		desired.DataPathClusterIPs: {"-10.2.1.1", "10.1.1.7 on n7", "10.2.0.1"},
	} {
		t.Run(string(path), func(t *testing.T) {
			in := records.Input(t, path, records.Exported("a", "shop", "web", "10.1.0.1", "10.1.1.1"), records.Exported("b", "shop", "web", "10.2.0.1", "10.2.1.1"))
			here := records.Input(t, path, records.Exported("a", "shop", "web", "10.1.0.9", "10.1.1.7"))
			in.Own = &records.Own{ClusterIPs: []string{"10.1.0.9"}, Endpoints: here.Endpoints, Nodes: map[string]string{"10.1.1.7": "n7", "10.2.1.1": "n1"}}
			if out := in.Compute(); strings.Contains(fmt.Sprint(steered(out)), "10.1.1.7") {
				t.Error("another cluster's addresses were replaced")
			}
			in.Cluster = "a"
			out := in.Compute()
			var got []string
			for _, s := range out.Slices {
				for _, e := range s.Endpoints {
					text := e.Addresses[0]
					if e.NodeName != nil {
						text += " on " + *e.NodeName
					}
					if !records.Routed(s) {
						text = "-" + text
					}
					got = append(got, text)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if ips := out.Global.Spec.Endpoints[0].Addresses; !slices.Equal(ips, []string{"10.1.0.9"}) {
				t.Errorf("the GlobalService has %v", ips)
			}
			// When the service is no longer exported, its endpoint records on the hub are ignored.
			in.Services = in.Services[1:]
			if got := fmt.Sprint(steered(in.Compute())); strings.Contains(got, "10.1.") {
				t.Errorf("not exported, and still %s", got)
			}
		})
	}
}
