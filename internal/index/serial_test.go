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

// The server after a reload has other Indexes, and goes on after the serials of the one before, which go on until it ends.
func TestIndexesOfAServerShareSerials(t *testing.T) {
	opts := Options{Serials: &Serials{}, Now: func() time.Time { return time.Unix(1000, 0) }}
	before, after := New(opts), New(opts)
	for i := range 4 {
		for n, x := range []*Index{before, after} {
			if x.Publish(); i > 0 {
				x.Put(importOf("a.n", netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}).String()))
			}
			if got, want := x.Snapshot().Serial(), uint32(1000+2*i+n); got != want { //nolint:gosec // small
				t.Errorf("change %d: serial %d, want %d", i, got, want)
			}
		}
	}
}

// An answer that doesn't come from the objects can change, too. Nothing else does then.
func TestRenumberGivesTheSameStateANewSerial(t *testing.T) {
	x := New(Options{Now: func() time.Time { return time.Unix(1000, 0) }})
	x.Renumber()
	if x.Snapshot() != nil {
		t.Error("published before everything has been read")
	}
	x.Restore([]Object{importOf("a.n", "10.0.0.1")}, time.Unix(1, 0))
	x.Renumber()
	if s := x.Snapshot(); !s.Stale() || s.Serial() != 1000 {
		t.Errorf("of a state file: stale %v and serial %d", s.Stale(), s.Serial())
	}
	x.Put(importOf("a.n", "10.0.0.1"))
	x.Publish()
	before := x.Snapshot()
	x.Renumber()
	after := x.Snapshot()
	if after.Serial() != before.Serial()+1 || after.Service("a.n") != before.Service("a.n") || !after.HasNamespace("n") {
		t.Errorf("serial %d after %d, or the state has changed", after.Serial(), before.Serial())
	}
	x.Put(importOf("a.n", "10.0.0.2"))
	if got := x.Snapshot().Serial(); got != after.Serial()+1 {
		t.Errorf("the next change has serial %d, after %d", got, after.Serial())
	}
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
