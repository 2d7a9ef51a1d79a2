package index

import (
	"net/netip"
	"testing"

	"github.com/clusterset/clusterset/internal/topology"
)

// The handler looks up a name for each packet. An answer in wire format needs nothing except the result of that lookup,
// so a lookup must not allocate.
func TestLookupAllocatesNothing(t *testing.T) {
	s := published(topology.Location{},
		&ServiceImport{Service: "web.prod", IPs: Addrs{netip.MustParseAddr("10.9.0.1")}, Ports: []Port{{"http", 80, TCP}}},
		&GlobalService{Service: "db.prod", Headless: true, Groups: []Group{{Cluster: "c1", Ports: []Port{{"pg", 5432, TCP}}, Endpoints: endpoints("10.0.0.1")}}},
	).Snapshot()
	for zone, names := range map[Zone]map[string]NameKind{
		{Dialect: Global}: {
			"web.prod.svc": ServiceName, "_http._tcp.web.prod.svc": PortName, "nothing.prod.svc": NameError, "prod.svc": Empty,
			"db.prod.svc": ServiceName, "10-0-0-1.c1.db.prod.svc": HostName, "c1.db.prod.svc": HostName,
			"z1.pin._zone.db.prod.svc": ZoneName, "a.b.prefer._zone.db.prod.svc": ZoneName, "pin._zone.db.prod.svc": Empty, "_zone.db.prod.svc": Empty,
			"z1.near._zone.db.prod.svc": NameError, "near._zone.db.prod.svc": NameError, "z1._zone.db.prod.svc": NameError, "pin_zone.db.prod.svc": NameError,
			"_http._zone.db.prod.svc": NameError, "_pg._tcp.z1.pin._zone.db.prod.svc": NameError, "z1.pin._zone.web.prod.svc": NameError, "_zone.web.prod.svc": NameError,
			"ns.dns": NameServer, "dns": Empty, "dns-version": Version, "svc": Empty, "": Apex, "ns.svc": NameError,
		},
		{Dialect: Global, Svc: true}: {
			"web.prod.svc": ServiceName, "c1.db.prod.svc": HostName, "prod.svc": Empty,
			"ns.svc": NameServer, "dns-version.svc": Version, "svc": Apex, "ns.dns.svc": NameError, "dns.svc": NameError,
		},
	} {
		for name, want := range names {
			var l Lookup
			allocs := testing.AllocsPerRun(100, func() {
				l = Lookup{}
				s.Lookup(&l, zone, name)
			})
			if allocs != 0 || l.Kind != want {
				t.Errorf("%q in %+v: kind %d with %.0f allocations, want kind %d with none", name, zone, l.Kind, allocs, want)
			}
		}
	}
}
