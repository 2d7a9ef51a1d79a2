package explain

import (
	"strconv"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// probed is an endpoint with what the index makes of it.
type probed struct {
	index.Endpoint
	group *index.Group
	// live: it is ready, in a cluster that has not expired. inside: and within the boundary.
	live, inside bool
	// tier and degraded are its own rank, where it is inside.
	tier     topology.Tier
	degraded bool
}

// probe has the index judge each endpoint by itself: it is given a headless service for each, with nothing else in it. So
// readiness, health, boundary and tiers are decided here by the very code that decides them for a server, and can't drift
// from it.
func probe(options index.Options, clusters []index.Object, groups []index.Group) []probed {
	options.Namespaces, options.LongestZone = nil, 0
	x := index.New(options)
	x.Put(clusters...)
	var all []probed
	for i := range groups {
		g := &groups[i]
		for _, e := range g.Endpoints {
			x.Put(&index.GlobalService{
				Service: probeKey(len(all)), Headless: true,
				Groups: []index.Group{{Cluster: g.Cluster, Region: g.Region, Endpoints: []index.Endpoint{e}}},
			})
			all = append(all, probed{Endpoint: e, group: g})
		}
	}
	x.Publish()
	snapshot := x.Snapshot()
	for i := range all {
		p, set := &all[i], snapshot.Service(string(probeKey(i))).Global()
		p.live, p.inside = set.Live, len(set.Addrs) > 0
		p.tier, p.degraded = set.Tier, set.Degraded
	}
	return all
}

func probeKey(i int) index.ServiceKey { return index.NewServiceKey("probe", "e"+strconv.Itoa(i)) }
