package index

import (
	"net/netip"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/topology"
)

// The serial follows the clock, because several servers may answer for one zone, but it never goes back.
func TestSerialFollowsTheClock(t *testing.T) {
	now := int64(1000)
	x := New(Options{Now: func() time.Time { return time.Unix(now, 0) }})
	x.Publish()
	change := func(clock int64, ip string, want uint32) {
		t.Helper()
		now = clock
		x.Put(&ServiceImport{Service: "a.n", IPs: Addrs{netip.MustParseAddr(ip)}})
		if got := x.Snapshot().Serial(); got != want {
			t.Errorf("at %d: serial %d, want %d", clock, got, want)
		}
	}
	change(2000, "10.0.0.1", 2000)
	change(2000, "10.0.0.2", 2001)
	change(1500, "10.0.0.3", 2002)
	change(3000, "10.0.0.3", 2002)
	change(4000, "10.0.0.4", 4000)
}

// The serial grows with every change that can change an answer, and only then: secondaries transfer the zone again for
// each, so a change that no query can observe must not count. Rule A52 of docs/spec/answers.md.
func TestSerialIgnoresWhatNoQuerySees(t *testing.T) {
	headless := func(ready bool, ports ...Port) Object {
		e := endpoints("10.0.0.1")
		e[0].Ready = ready
		return &GlobalService{Service: "a.n", Headless: true, Ports: ports, Groups: []Group{{Cluster: "c1", Endpoints: e}}}
	}
	vip := func(ports ...Port) Object {
		return &ServiceImport{Service: "a.n", IPs: Addrs{netip.MustParseAddr("10.0.0.1")}, Ports: ports}
	}
	clusterIP := func(ready bool) Object {
		e := endpoints("10.0.0.1")
		e[0].Ready = ready
		return &GlobalService{Service: "a.n", Groups: []Group{{Cluster: "c1", Endpoints: e}}}
	}
	http, dns := Port{"http", 80, TCP}, Port{"dns", 53, UDP}
	tests := []struct {
		name     string
		policy   topology.Policy
		was, is  Object
		clusters []Object // put along with the change
	}{
		{"the tier that the same addresses come from", topology.Policy{}, headless(true), headless(true), []Object{&Cluster{Name: "c1", Member: topology.Member{Zones: []string{"z1"}, Region: "r1"}}}},
		{"the health of the only cluster", topology.Policy{}, headless(true), headless(true), []Object{&Cluster{Name: "c1", Member: topology.Member{Phase: topology.Suspect}}}},
		{"an unnamed port of a ClusterSetIP", topology.Policy{}, vip(http), vip(http, Port{"", 9, TCP}), nil},
		{"the order of ports", topology.Policy{}, vip(http, dns), vip(dns, http), nil},
		{"a port of a headless service that doesn't exist for want of endpoints", topology.Policy{}, headless(false, http), headless(false, http, dns), nil},
		{"readiness beyond the boundary", topology.Policy{Boundary: topology.Region}, clusterIP(false), clusterIP(true), nil},
		{"readiness in a cluster that is gone", topology.Policy{}, clusterIP(false), clusterIP(true), []Object{&Cluster{Name: "c1", Member: topology.Member{Phase: topology.Expired}}}},
	}
	for _, tt := range tests {
		x := New(Options{Self: topology.Location{Zone: "z1", Region: "r1"}, Policy: tt.policy, LongestZone: len("global.")})
		x.Put(tt.was)
		x.Publish()
		before := x.Snapshot().Serial()
		x.Put(append(tt.clusters, tt.is)...)
		if after := x.Snapshot().Serial(); after != before {
			t.Errorf("%s: the serial grows", tt.name)
		}
	}
}
