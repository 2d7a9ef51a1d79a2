package random

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
)

// TestRandomRun does what users do in three clusters, in random order, while agents, the hub process and DNS servers are killed with
// SIGKILL and started again, and paths between clusters break. At the end, every server must answer every name that could ever have existed,
// and every extended Service have the endpoints of last resort, as the oracle (oracle.go) computes it from the members' own objects and from
// who reaches whom. Then everything is removed, and nothing may be left.
//
// make test runs a short script with one seed; make test-long runs 200 operations with another seed each time.
//
// The script continues while processes start and writes are under way. So the timing differs between two runs of a seed, but the result
// must not.
func TestRandomRun(t *testing.T) {
	play(t, setup{
		clusters: []fleettest.Spec{
			{Name: "xicheng", Zone: "beijing", Region: "north", DualStack: true, Beacons: true},
			{Name: "shijiazhuang", Zone: "hebei", Region: "north", Beacons: true},
			{Name: "minhang", Zone: "shanghai", Region: "south", DualStack: true, Beacons: true},
		},
		// Locations that no cluster has: one with a zone but no region, and one with neither.
		elsewhere:  []fleet.Location{{Cluster: "shijiazhuang", Zone: "beijing"}, {Cluster: "minhang"}},
		reach:      true,
		names:      5,
		operations: 36,
	})
}

// TestCommunities is such a run with five clusters in overlapping communities. The script also moves clusters between communities (once
// all clusters leave theirs and return), and limits exports to some clusters. Each server's answers must be those of the exports that
// its cluster sees, merged. With a cluster's own credentials, the hub must show the records of exactly the clusters that share a
// community with it.
func TestCommunities(t *testing.T) {
	play(t, setup{
		clusters: []fleettest.Spec{
			{Name: "xicheng", Zone: "beijing", Region: "north", DualStack: true, Communities: []string{"red"}},
			{Name: "shijiazhuang", Zone: "hebei", Region: "north", Communities: []string{"red", "blue"}},
			{Name: "minhang", Zone: "shanghai", Region: "south", DualStack: true, Communities: []string{"blue", "green"}},
			{Name: "chaoyang", Zone: "beijing", Region: "north", Communities: []string{"green"}},
			{Name: "pudong", Zone: "shanghai", Region: "south"},
		},
		communities: []string{"red", "blue", "green", "default"},
		names:       3,
		operations:  16,
	})
}

// TestNetworks is such a run with two networks of two clusters each. The script also moves clusters between networks (once all are in one, and
// separated again), and changes where clusters of other networks reach services. Names, the endpoints of last resort and the condition
// Reachable must follow: of a cluster in another network nothing but external addresses is used.
func TestNetworks(t *testing.T) {
	play(t, setup{
		clusters: []fleettest.Spec{
			{Name: "xicheng", Zone: "beijing", Region: "north", DualStack: true},
			{Name: "shijiazhuang", Zone: "hebei", Region: "north"},
			{Name: "minhang", Zone: "shanghai", Region: "south", DualStack: true},
			{Name: "chaoyang", Zone: "beijing", Region: "north"},
		},
		networks:   []string{"core", "core", "edge", "edge"},
		external:   true,
		names:      3,
		operations: 24,
	})
}

// play starts the clusters and runs one script for each seed.
func play(t *testing.T, set setup) {
	t.Helper()
	seed, runs := Seeds(t)
	if fleettest.Long {
		set.operations = 200
	}
	f := fleettest.New(t, set.clusters...)
	servers := []Server{}
	for _, m := range f.Members {
		servers = append(servers, Server{m.DNS, m, fleet.Location{Cluster: m.Spec.Name, Zone: m.Spec.Zone, Region: m.Spec.Region}})
	}
	for i, at := range set.elsewhere {
		servers = append(servers, Server{f.Members[1+i].DNSAt(at), f.Members[1+i], at})
	}
	for i := range uint64(runs) { //nolint:gosec // a handful
		if !t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			r := &Run{Fleet: f.For(t), Script: newScript(set, seed+i, int(i)), Servers: servers}
			r.run()
		}) {
			return // the next run would start with this one's leftovers
		}
	}
}

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
	c := newView(fleettest.Spec{Name: name})
	c.Network, c.In, c.namespaces["shop"] = network, []string{"cities"}, true
	return c
}

func TestMain(m *testing.M) { fleettest.MainWithBeacons(m) }
