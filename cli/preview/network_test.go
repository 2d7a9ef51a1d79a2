package preview

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/record"
)

// twoNetworks returns three clusters in one zone. a and b are in one network. c, in another one, exports shop/web at two nodes with three
// pods behind, shop/lb at a load balancer in front of two, shop/plain without external addresses and the headless shop/db. b exports shop/web too.
func twoNetworks(t testing.TB) *set {
	s := newSet(t, "a z r", "b z r", "c z r")
	c := s.member("c")
	c.Spec.Network, c.Spec.ExternalCIDRs, c.Spec.CIDRs = "edge", []string{"192.0.2.0/24"}, []string{"10.3.0.0/16", "10.96.3.0/24"}
	s.export("c", "shop/web", "", "z=3")
	s.external("c", "shop/web", 31234, 3, "192.0.2.21", "192.0.2.22")
	s.export("b", "shop/web", "", "z=1")
	s.export("c", "shop/lb", "", "z=2")
	s.external("c", "shop/lb", 80, 2, "192.0.2.10")
	s.export("c", "shop/plain", "", "z=1")
	s.export("c", "shop/db", "None", "z=1")
	return s
}

// external adds the external addresses of a cluster's Service.
func (s *set) external(cluster, service string, port, behind int32, addresses ...string) {
	key, _ := ParseService(service)
	e := clustersetv1alpha1.ExportedEndpoints{
		ObjectMeta: record.Meta(cluster, key, api.ExportedEndpointsName(key.Namespace, key.Name, api.ExternalOrigin("IPv4"), 0)),
		Spec: clustersetv1alpha1.ExportedEndpointsSpec{
			ServiceNamespace: key.Namespace, ServiceName: key.Name, AddressType: discoveryv1.AddressTypeIPv4, External: true, Behind: behind,
			Ports: []clustersetv1alpha1.EndpointPort{{Name: ptr.To("http"), Port: &port}},
		},
	}
	for _, a := range addresses {
		e.Spec.Endpoints = append(e.Spec.Endpoints, clustersetv1alpha1.Endpoint{Addresses: []string{a}})
	}
	s.endpoints = append(s.endpoints, e)
}

func TestChangesOfNetworks(t *testing.T) {
	in := func(cluster, to string, external ...string) Change {
		return Change{Place: &Place{Cluster: cluster, Network: to, ExternalCIDRs: external}}
	}
	for _, c := range []struct {
		name   string
		change func(*set)
		what   []Change
		want   []string
	}{
		{"the same as now", nil, []Change{in("c", "edge")}, nil},
		{"through another one and back", nil, []Change{in("c", "third"), in("c", "edge")}, nil},
		{"the network is taken back", nil, []Change{in("c", "-")}, []string{
			"shop/lb from a/z/r b/z/r: . | c:2 => c:2 [moved] | c:2 => c:2 [moved]",
			"shop/web from a/z/r b/z/r: . | b:1 => b:1 c:3 [more] | b:1 c:3 => b:1 c:3 [moved]",
			"shop/web from c/z/r: . | c:3 => b:1 c:3 [more] | c:3 => b:1 c:3 [more]",
			"shop/db from a/z/r b/z/r: NXDOMAIN => c:1 [gained] | NXDOMAIN => c:1 [gained] | .",
			"shop/plain from a/z/r b/z/r: . | NODATA => c:1 [gained] | NODATA => c:1 [gained]",
		}},
		{"a joins c", nil, []Change{in("a", "edge")}, []string{
			"shop/web from a/z/r: . | b:1 => c:3 [more] | b:1 c:3 => c:3 [fewer]",
			"shop/lb from a/z/r: . | c:2 => c:2 [moved] | c:2 => c:2 [moved]",
			"shop/db from a/z/r: NXDOMAIN => c:1 [gained] | NXDOMAIN => c:1 [gained] | .",
			"shop/plain from a/z/r: . | NODATA => c:1 [gained] | NODATA => c:1 [gained]",
		}},
		{"no external networks any more", nil, []Change{in("c", "edge", "-")}, []string{
			"shop/lb from a/z/r b/z/r: . | c:2 => NODATA [lost] | c:2 => NODATA [lost]",
			"shop/web from a/z/r b/z/r: . | . | b:1 c:3 => b:1 [fewer]",
		}},
		{"other external networks, with the load balancer in them", nil, []Change{in("c", "edge", "198.51.100.0/24", "192.0.2.10/32")}, []string{
			"shop/web from a/z/r b/z/r: . | . | b:1 c:3 => b:1 [fewer]",
		}},
		{"a cluster joins in whose cidrs the load balancer is", func(s *set) { // rule D82
			s.member("a").Spec.Network, s.member("a").Spec.CIDRs = "core", []string{"192.0.2.8/29"}
		}, []Change{in("a", "-")}, []string{
			"shop/lb from b/z/r: . | c:2 => NODATA [lost] | c:2 => NODATA [lost]",
			"shop/web from a/z/r: . | NODATA => b:1 [gained] | c:3 => b:1 c:3 [more]",
		}},
		{"cidrs of a cluster in which the load balancer is", nil, []Change{{Place: &Place{Cluster: "a", CIDRs: []string{"192.0.2.8/29"}}}}, []string{ // rule D82
			"shop/lb from a/z/r b/z/r: . | c:2 => NODATA [lost] | c:2 => NODATA [lost]",
		}},
		{"cidrs in which the load balancer was", func(s *set) { s.member("a").Spec.CIDRs = []string{"192.0.2.8/29"} }, []Change{{Place: &Place{Cluster: "a", CIDRs: []string{"-"}}}}, []string{
			"shop/lb from a/z/r b/z/r: . | NODATA => c:2 [gained] | NODATA => c:2 [gained]",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := twoNetworks(t)
			if c.change != nil {
				c.change(set)
			}
			s := set.state()
			complete(t, s, c.what, expect(t, s, Options{}, c.what, c.want...))
		})
	}
}

// complete checks that a result has each place of each service that changes.
func complete(t *testing.T, s *State, what []Change, r *Result) {
	t.Helper()
	after, _, err := s.Apply(what...)
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string]bool{}
	for i := range r.Services {
		for _, cell := range r.Services[i].Cells {
			for _, p := range cell.Places {
				reported[r.Services[i].Key().String()+" "+p.Cluster] = true
			}
		}
	}
	for _, key := range s.Services() {
		for _, p := range s.Places() {
			was, is := s.Answers(key, p, Options{}), after.Answers(key, p, Options{})
			if changes := !was.same(is); changes != reported[key.String()+" "+p.Cluster] {
				t.Errorf("%s from %s changes: %v, and is reported: %v", key, p.Cluster, changes, !changes)
			}
		}
	}
}

// The endpoints of a service are its pods, whether or not they have an external address.
func TestExternalAddressesAreNoEndpoints(t *testing.T) {
	for _, by := range twoNetworks(t).state().Exported(types.NamespacedName{Namespace: "shop", Name: "web"}).By {
		if want := map[string]int{"b": 1, "c": 3}[by.Cluster]; by.Ready != want || by.Endpoints != want {
			t.Errorf("%s has %d of %d endpoints, want %d", by.Cluster, by.Ready, by.Endpoints, want)
		}
	}
}
