package explain

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/internal/index"
)

// found is the result of a lookup, with its explanation.
type found struct {
	index.Lookup
	result Result
	vip    bool // the addresses are ClusterSetIPs
	// ranked: the addresses are those of the best tier.
	ranked bool
	why    string // for a name below the service's that has no address
}

func find(n Name, snapshot *index.Snapshot) found {
	at := found{result: NXDomain}
	snapshot.Lookup(&at.Lookup, index.Zone{Dialect: n.Dialect}, n.below())
	if at.Kind == index.ZoneName {
		snapshot.Zonal(&at.Lookup)
	}
	at.vip = at.Set.Source == index.SourceClusterSetIPs
	at.ranked = at.Kind == index.ServiceName && !at.vip
	port := strings.HasPrefix(n.Labels, "_")
	switch {
	case at.Set.Absent():
	case len(at.Addrs) > 0:
		at.result = Answer
	case at.Kind == index.ServiceName:
		at.result = NoData
	case at.Kind == index.NameError:
		at.why = missing(n, at.Set)
	case at.Kind == index.ZoneName:
		at.result, at.why = NoData, "no ready endpoint is in that zone"
	case n.Labels == "_zone" || strings.HasSuffix(n.Labels, "._zone"):
		at.result, at.why = NoData, "names with a zone are below it, such as <zone>.prefer._zone"
	case port:
		at.result, at.why = NoData, "it is the name of a port, which has SRV records and no addresses"
	case at.Set.Cluster(n.Labels) != nil:
		at.result, at.why = NoData, "a cluster has no addresses, only the hosts below it do (KEP-1645, specification 2.4.4)"
	default:
		at.result, at.why = NoData, "it is a part of a cluster's dotted name"
	}
	return at
}

// missing explains why a name below an existing service doesn't exist.
func missing(n Name, set *index.Set) string {
	switch {
	case strings.HasPrefix(n.Labels, "_"):
		return "no endpoint and no port of the service has that name"
	case set.Source == index.SourceClusterSetIPs:
		return "a ClusterSetIP service has nothing below its name but ports (KEP-1645, specification 2.3.4)"
	case n.Dialect == index.MCS && !set.Headless:
		return "in this zone a service with a ClusterIP has nothing below its name but ports; svc.global has clusters there"
	default:
		return "no ready endpoint and no live cluster of the service within the boundary has that name"
	}
}

// hides reports whether an endpoint isn't behind the name, because the name belongs to another host, cluster or zone.
func (at *found) hides(cluster, hostname string, addr netip.Addr) bool {
	switch {
	case at.Kind == index.ZoneName:
		return !slices.Contains(at.Addrs, addr)
	case at.Kind != index.HostName:
		return false
	case at.Set.Headless && at.Set.Host(at.Labels) != nil:
		return hostname+"."+cluster != at.Labels
	default:
		return cluster != at.Labels
	}
}
