package clusterset

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// fuzzObjects are services of every kind, with names that could be mistaken for something else.
func fuzzObjects() []index.Object {
	addrs := func(texts ...string) index.Addrs {
		var list []netip.Addr
		for _, s := range texts {
			list = append(list, netip.MustParseAddr(s))
		}
		return index.SortAddrs(list)
	}
	group := func(cluster, hostname string, ready bool, texts ...string) index.Group {
		g := index.Group{Cluster: cluster, Ports: []index.Port{{Name: "http", Number: 8080}, {Name: "", Number: 9}}}
		for _, a := range addrs(texts...) {
			g.Endpoints = append(g.Endpoints, index.Endpoint{Addr: a, Hostname: hostname, Ready: ready})
		}
		return g
	}
	twoPorts := func(g index.Group) index.Group {
		g.Ports = append(g.Ports, index.Port{Name: "s", Number: 1, Protocol: index.SCTP})
		return g
	}
	slice := func(name string, key index.ServiceKey, g index.Group) *index.EndpointSlice {
		return &index.EndpointSlice{Namespace: key.Namespace(), Name: name, Service: key, Group: g}
	}
	http := []index.Port{{Name: "http", Number: 80}}
	return []index.Object{
		&index.ServiceImport{Service: "vip.ns", IPs: addrs("10.9.0.1", "fd09::1"), Ports: []index.Port{
			{Name: "http", Number: 80}, {Name: "dns", Number: 53, Protocol: index.UDP}, {Name: "", Number: 7, Protocol: index.SCTP},
		}},
		&index.ServiceImport{Service: "hl.ns", Headless: true},
		slice("1", "hl.ns", twoPorts(group("c1", "h0", true, "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"))),
		slice("2", "hl.ns", group("c1", "", true, "10.0.0.3", "::5")),
		slice("3", "hl.ns", group("a.b", "h0", true, "10.0.0.4")),
		slice("4", "hl.ns", group("", "h0", true, "10.0.0.5")),
		slice("5", "hl.ns", group("c9", "h0", false, "10.0.0.6")),
		&index.ServiceImport{Service: "dead.gone", Headless: true, Ports: http},
		slice("6", "dead.gone", group("c1", "h0", false, "10.0.0.7")),
		&index.ServiceImport{Service: "waits.ns", Ports: http},
		&index.GlobalService{
			Service: "glob.ns", Ports: append([]index.Port{{Name: "s", Number: 1, Protocol: index.SCTP}}, http...),
			Groups: []index.Group{group("c1", "", true, "10.1.0.1"), group("a.b", "", true, "fd01::1"), group("c2", "", false, "10.1.0.3")},
		},
		&index.ServiceImport{Service: "both.ns", Ports: http},
		&index.GlobalService{Service: "both.ns", Headless: true, Groups: []index.Group{group("c1", "a", true, "10.2.0.1"), group("a.c1", "", true, "10.2.0.2")}},
		&index.ServiceImport{Service: "svc.svc", IPs: addrs("10.9.0.2")},
		&index.ServiceImport{Service: "clusterset.local", IPs: addrs("10.9.0.3")},
		&index.ServiceImport{Service: "dns-version.dns", IPs: addrs("10.9.0.4")},
		slice("7", "orphan.nowhere", group("c1", "h0", true, "10.0.0.8")),
	}
}

// fuzzNames are all the names below a zone that come from fuzzObjects, by rules A1 to A14 of docs/spec/answers.md. Between them and
// the zone are only empty non-terminals.
var fuzzNames = map[index.Dialect]map[string]index.NameKind{
	index.MCS: {
		"": index.Apex, "ns.dns": index.NameServer, "dns-version": index.Version, "svc": index.Empty, "gone.svc": index.Empty,
		"vip.ns.svc": index.ServiceName, "_http._tcp.vip.ns.svc": index.PortName, "_dns._udp.vip.ns.svc": index.PortName,
		"hl.ns.svc": index.ServiceName, "_http._tcp.hl.ns.svc": index.PortName, "_s._sctp.hl.ns.svc": index.PortName, "h0.c1.hl.ns.svc": index.HostName, "10-0-0-3.c1.hl.ns.svc": index.HostName,
		"0--5.c1.hl.ns.svc": index.HostName, "h0.a.b.hl.ns.svc": index.HostName,
		"waits.ns.svc": index.ServiceName, "_http._tcp.waits.ns.svc": index.PortName,
		"glob.ns.svc": index.ServiceName, "_http._tcp.glob.ns.svc": index.PortName, "_s._sctp.glob.ns.svc": index.PortName,
		"both.ns.svc": index.ServiceName, "_http._tcp.both.ns.svc": index.PortName, "a.c1.both.ns.svc": index.HostName, "10-2-0-2.a.c1.both.ns.svc": index.HostName,
		"svc.svc.svc": index.ServiceName, "clusterset.local.svc": index.ServiceName, "dns-version.dns.svc": index.ServiceName,
	},
	index.Global: {
		"c1.hl.ns.svc": index.HostName, "a.b.hl.ns.svc": index.HostName, "c1.glob.ns.svc": index.HostName, "a.b.glob.ns.svc": index.HostName, "c1.both.ns.svc": index.HostName,
		// Host "a" of c1 and cluster "a.c1" have the same name. The host's addresses win.
		"a.c1.both.ns.svc": index.HostName,
	},
}

func init() {
	for name, k := range fuzzNames[index.MCS] {
		fuzzNames[index.Global][name] = k
	}
}

// kindOf returns the kind of a name below a zone (A14 to A17).
func kindOf(z *zone, name string) index.NameKind {
	if strings.HasPrefix(z.name, "svc.") {
		switch name {
		case "":
			return index.Apex
		case "ns":
			return index.NameServer
		case "dns-version":
			return index.Version
		}
		name += ".svc"
	}
	d := z.dialect
	if k, ok := fuzzNames[d][name]; ok {
		return k
	}
	for below := range fuzzNames[d] {
		if strings.HasSuffix(below, "."+name) {
			return index.Empty
		}
	}
	return zonalKind(name)
}

// zonalKind returns the kind of a name with a zone (A18), or NameError.
func zonalKind(name string) index.NameKind {
	for _, headless := range []string{"hl.ns.svc", "both.ns.svc"} {
		front, ok := strings.CutSuffix(name, "._zone."+headless)
		labels := dns.SplitDomainName(front)
		switch {
		case name == "_zone."+headless, ok && (front == "pin" || front == "prefer"):
			return index.Empty
		case ok && len(labels) > 1 && labels[0][0] != '_' && (labels[len(labels)-1] == "pin" || labels[len(labels)-1] == "prefer"):
			return index.ZoneName
		}
	}
	return index.NameError
}

// newFuzzPlugin returns a plugin with the given zones. FabDNS zones have the dialect Global.
func newFuzzPlugin(zoneNames ...string) *ClusterSet {
	c := &ClusterSet{ttl: defaultTTL, tiers: newTierCounters()}
	for _, name := range zoneNames {
		d := index.MCS
		if name == "global." || name == "svc.global." || name == "." {
			d = index.Global
		}
		c.zones = append(c.zones, newZone(name, d))
	}
	c.zones.sort()
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	c.self.store([]netip.Addr{netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fd99::9")})
	c.index.Put(fuzzObjects()...)
	c.index.Publish()
	return c
}

// fuzzLabels are labels for building names, in addition to those that the fuzzer generates.
var fuzzLabels = strings.Fields(`svc ns dns dns-version clusterset local global hl vip glob both waits dead gone orphan nowhere
	c1 a b c2 c9 h0 10-0-0-3 0--5 _http _dns _s _tcp _udp _sctp _zone pin prefer _ * \. \\ A\.b h0.c1 in`)

// fuzzBases returns the existing names below a zone, and the names of services whose ServiceImport or ready endpoints are missing.
func fuzzBases() []string {
	bases := map[string]bool{"": true, "dead.gone.svc": true, "orphan.nowhere.svc": true, "nowhere.svc": true}
	for name := range fuzzNames[index.Global] {
		for ; name != ""; _, name, _ = strings.Cut(name, ".") {
			bases[name] = true
		}
	}
	return slices.Sorted(maps.Keys(bases))
}
