package index

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"testing"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/topology"
)

// largest returns the largest possible GlobalService, with as many endpoints and named ports as the API allows. If differ is
// set, the clusters have different port numbers, so that no two clusters have a target in common.
func largest(differ bool) *GlobalService {
	g := &GlobalService{Service: "large.ns", Headless: true}
	for i := range api.MaxPorts {
		g.Ports = append(g.Ports, Port{Name: fmt.Sprintf("port-%d", i), Number: uint16(8000 + i)}) //nolint:gosec // few
	}
	const clusters = 8
	for cluster := range clusters {
		group := Group{Cluster: fmt.Sprintf("cluster-%d", cluster), Ports: g.Ports}
		if differ {
			group.Ports = nil
			for _, p := range g.Ports {
				group.Ports = append(group.Ports, Port{Name: p.Name, Number: p.Number + uint16(cluster)}) //nolint:gosec // few
			}
		}
		for i := range api.MaxGlobalServiceEndpoints / clusters {
			group.Endpoints = append(group.Endpoints, Endpoint{
				Addr: netip.AddrFrom4([4]byte{10, byte(cluster), byte(i / 256), byte(i)}), Hostname: fmt.Sprintf("pod-%d", i), Ready: true,
			})
		}
		g.Groups = append(g.Groups, group)
	}
	return g
}

// Listing and sorting all 409,600 targets would take 16 MB and more than 400 ms.
func TestUpdateOfTheLargestServiceIsBounded(t *testing.T) {
	for _, differ := range []bool{false, true} {
		x, g := published(topology.Location{}), largest(differ)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x.Put(g)
		runtime.ReadMemStats(&after)
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 8 {
			t.Errorf("differ=%t: the update allocates %d MiB", differ, mib)
		}
		set := x.Snapshot().Service("large.ns").Set(MCS)
		want := api.MaxGlobalServiceEndpoints * api.MaxPorts
		if set.Targets.Len() != want || set.Ports[0].Targets.Len() != api.MaxGlobalServiceEndpoints {
			t.Errorf("%d targets, %d at the first port", set.Targets.Len(), set.Ports[0].Targets.Len())
		}
	}
}

// Every endpoint may have its own ports. At most maxPorts are served, including the service's own.
// Rule A48 of docs/spec/answers.md.
func TestNamedPortsAreBounded(t *testing.T) {
	g := &GlobalService{Service: "many.ns", Headless: true, Ports: []Port{{"own", 1, TCP}}}
	for i := range 1000 {
		e := endpoints(fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250))
		g.Groups = append(g.Groups, Group{Cluster: "c1", Endpoints: e, Ports: []Port{{fmt.Sprintf("a%d", i), 80, TCP}, {"own", 9, TCP}}})
	}
	x := published(topology.Location{}, g)
	var l Lookup
	x.Snapshot().Lookup(&l, Zone{}, "_own._tcp.many.ns.svc")
	if n := len(x.Snapshot().Service("many.ns").Set(MCS).Ports); n != maxPorts || l.Targets.Len() != 1000 {
		t.Errorf("%d ports, %d targets at the service's own", n, l.Targets.Len())
	}
	// The ports of a ClusterSetIP come from its import alone.
	i := importOf("vip.ns", "10.1.0.1")
	for p := range 1000 {
		i.Ports = append(i.Ports, Port{fmt.Sprintf("p%d", 999-p), 80, TCP})
	}
	x.Put(i)
	set := x.Snapshot().Service("vip.ns").Set(MCS)
	first := func(p PortTargets) bool { return p.Name == "p999" }
	if n := len(set.Ports); n != maxPorts || !slices.ContainsFunc(set.Ports, first) || set.Targets.Len() != 1 {
		t.Errorf("ClusterSetIP: %d ports, %d targets, without the first port: %v", n, set.Targets.Len(), set.Ports[0])
	}
}
