package random

import (
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
)

// TestRandomRun does what users do in three clusters, in random order, while agents, the hub process and DNS servers are killed with
// SIGKILL and started again, and paths between clusters break. At the end, every server must answer every name that has existed,
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
// separated again), and changes where clusters of other networks reach services. Names and the endpoints of last resort must
// follow: of a cluster in another network nothing but external addresses is used.
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

func TestMain(m *testing.M) { fleettest.MainWithBeacons(m) }
