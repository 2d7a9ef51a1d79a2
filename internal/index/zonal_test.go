package index

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/clusterset/clusterset/internal/topology"
)

// Zones in capitals are found, as DNS knows no case. Rule A18 of docs/spec/answers.md.
func TestZonesInCapitals(t *testing.T) {
	own, clusters := endpoints("10.0.0.1"), endpoints("10.0.0.2")
	own[0].Zone = "Rack-A"
	x := published(topology.Location{},
		&Cluster{Name: "c1", Member: topology.Member{Zones: []string{"Rack-B"}}},
		&GlobalService{Service: "db.prod", Headless: true, Groups: []Group{{Cluster: "c2", Endpoints: own}, {Cluster: "c1", Endpoints: clusters}}},
	)
	for name, want := range map[string]string{"rack-a": "10.0.0.1", "rack-b": "10.0.0.2"} {
		var l Lookup
		s := x.Snapshot()
		s.Lookup(&l, Zone{}, name+".pin._zone.db.prod.svc")
		s.Zonal(&l)
		if len(l.Addrs) != 1 || l.Addrs[0] != netip.MustParseAddr(want) {
			t.Errorf("%s: %v, want %s", name, l.Addrs, want)
		}
	}
}

// However many zones clients make up, a service keeps one answer for all of these.
func TestMadeUpZonesShareAnAnswer(t *testing.T) {
	x := published(topology.Location{}, &GlobalService{Service: "db.prod", Headless: true, Groups: []Group{{Cluster: "c1", Endpoints: endpoints("10.0.0.1")}}})
	s := x.Snapshot()
	for i := range 100 {
		for _, directive := range []string{"pin", "prefer"} {
			var l Lookup
			s.Lookup(&l, Zone{}, fmt.Sprintf("z%d.%s._zone.db.prod.svc", i, directive))
			s.Zonal(&l)
		}
	}
	if kept := len(s.Service("db.prod").Set(Global).zonal.answers); kept != 2 {
		t.Errorf("%d answers are kept, want one of each directive", kept)
	}
}
