package explain

import (
	"strings"

	"github.com/clusterset/clusterset/internal/index"
)

// found is what stands at a name.
type found struct {
	result Result
	addrs  index.Addrs
	vip    bool // the addresses are ClusterSetIPs
	ranked bool // they are those of the best tier
	// hides says of an endpoint that it has no part in the name.
	hides func(cluster, hostname string) bool
	why   string // for a name below the service's that has no address
}

// find looks a name up as the plugin does (plugin/lookup.go).
func find(n Name, set *index.Set) found {
	at := found{result: NXDomain, vip: set.Source == index.SourceClusterSetIPs}
	if set.Absent() {
		return at
	}
	switch {
	case n.Labels == "":
		at.addrs, at.ranked = set.Addrs, !at.vip
		at.result = NoData
		if len(at.addrs) > 0 {
			at.result = Answer
		}
		return at
	case strings.HasPrefix(n.Labels, "_"):
		at.why = "no endpoint and no port of the service has that name"
		if hasPort(n.Labels, set) {
			at.result, at.why = NoData, "it is the name of a port, which has SRV records and no addresses"
		}
		return at
	case at.vip:
		at.why = "a ClusterSetIP service has nothing below its name but ports (KEP-1645, specification 2.3.4)"
		return at
	}
	return findHost(at, n, set)
}

func findHost(at found, n Name, set *index.Set) found {
	host, cluster := set.Host(n.Labels), set.Cluster(n.Labels)
	switch {
	case set.Headless && host != nil:
		at.result, at.addrs = Answer, host.Addrs
		at.hides = func(cluster, hostname string) bool { return hostname+"."+cluster != n.Labels }
	case n.Dialect == MCS && !set.Headless:
		at.why = "in this zone a service with a ClusterIP has nothing below its name but ports; the zone global has clusters there"
	case cluster != nil && n.Dialect == Global:
		at.result, at.addrs = Answer, cluster.Addrs
		at.hides = func(cluster, _ string) bool { return cluster != n.Labels }
	case cluster != nil:
		at.result, at.why = NoData, "a cluster has no addresses, only the hosts below it have (KEP-1645, specification 2.4.4)"
	case set.EmptyNonTerminal(n.Labels):
		at.result, at.why = NoData, "it is a part of a cluster's dotted name"
	default:
		at.why = "no ready endpoint and no live cluster of the service within the boundary has that name"
	}
	return at
}

// hasPort reports whether _port._proto, or _proto alone, stands for a port of the service.
func hasPort(labels string, set *index.Set) bool {
	port, proto, whole := strings.Cut(labels, ".")
	if !whole {
		port, proto = "", labels
	}
	is := func(name string, p index.Protocol) bool {
		return name != "" && proto == "_"+p.String() && (!whole || port == "_"+name)
	}
	for _, p := range set.Ports {
		if is(p.Name, p.Protocol) {
			return true
		}
	}
	return false
}
