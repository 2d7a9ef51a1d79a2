package index

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/topology"
)

// published returns a published Index of the objects, for a server at self.
func published(self topology.Location, objects ...Object) *Index {
	x := New(Options{Self: self, LongestZone: len("clusterset.local."), Now: func() time.Time { return time.Unix(1, 0) }})
	x.Put(objects...)
	x.Publish()
	return x
}

func endpoints(addrs ...string) []Endpoint {
	var list []Endpoint
	for _, a := range addrs {
		list = append(list, Endpoint{Addr: netip.MustParseAddr(a), Ready: true})
	}
	return list
}

// The cost of a rolling update must not grow with the number of services. Among 11,000 services, one update of a headless
// service with ten endpoints allocates at most 20 kB.
func TestUpdateCost(t *testing.T) {
	var objects []Object
	for i := range 11000 {
		ns := fmt.Sprintf("n%d", i%300)
		key := NewServiceKey(ns, fmt.Sprintf("service-%d", i))
		objects = append(objects, &ServiceImport{Service: key, Headless: true, Ports: []Port{{"http", 80, TCP}}},
			&EndpointSlice{Namespace: ns, Name: key.Name(), Service: key, Group: tenEndpoints(10)})
	}
	x := published(topology.Location{Cluster: "c1", Zone: "z1", Region: "r1"}, objects...)
	rollingUpdate := make([]Object, 20)
	for i := range rollingUpdate {
		rollingUpdate[i] = &EndpointSlice{Namespace: "n7", Name: "service-7", Service: "service-7.n7", Group: tenEndpoints(i % 11)}
	}
	const runs = 400
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range runs {
		x.Put(rollingUpdate[i%len(rollingUpdate)])
	}
	runtime.ReadMemStats(&after)
	bytes, mallocs := (after.TotalAlloc-before.TotalAlloc)/runs, (after.Mallocs-before.Mallocs)/runs
	t.Logf("%d bytes in %d allocations an update", bytes, mallocs)
	if bytes > 20_000 {
		t.Errorf("an update allocates %d bytes, want 20,000 at most", bytes)
	}
	if n := len(x.Snapshot().Services()); n != 11000 {
		t.Errorf("%d services after that", n)
	}
}

// tenEndpoints returns a group of ten endpoints. The one with the given number is not ready.
func tenEndpoints(unready int) Group {
	g := Group{Cluster: "c2", Ports: []Port{{"http", 8080, TCP}}}
	for i := range 10 {
		g.Endpoints = append(g.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Zone: "z2", Ready: i != unready})
	}
	return g
}
