package explain

import (
	"net/netip"
	"slices"

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
	switch {
	case at.Set.Absent():
	case len(at.Addrs) > 0:
		at.result = Answer
	case at.Kind == index.ServiceName:
		at.result = NoData
	case at.Kind == index.NameError && (at.vip || n.Dialect == index.MCS && !at.Set.Headless):
		at.why = "a service with a ClusterSetIP or ClusterIP has nothing below its name but ports (KEP-1645, specification 2.3.4)"
	case at.Kind == index.NameError:
		at.why = "no ready endpoint, port or live cluster of the service within the boundary has that name"
	case at.Kind == index.ZoneName:
		at.result, at.why = NoData, "no ready endpoint is in that zone"
	case at.Kind == index.PortName:
		at.result, at.why = NoData, "it is the name of a port, which has SRV records and no addresses"
	default:
		at.result, at.why = NoData, "it has no addresses, only names below it do"
	}
	return at
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
