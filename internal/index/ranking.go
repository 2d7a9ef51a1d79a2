package index

import "github.com/clusterset/clusterset/internal/topology"

// Ranked is an endpoint and what the ranking made of it.
type Ranked struct {
	Endpoint
	// Cluster is the endpoint's, Region its own, empty for the cluster's.
	Cluster, Region string
	// Rank is the endpoint's, were it ready, and Tier the one that it would be used in.
	Rank topology.Rank
	Tier topology.Tier
	// Used endpoints are those whose addresses the Set has.
	Used bool
}

// Ranking lists the endpoints behind a service in a dialect, as they were ranked. It is for explanations: it ranks them anew and
// takes the lock that changes take.
func (x *Index) Ranking(svc *Service, d Dialect) []Ranked {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.ranker()
	in := svc.ranked(svc.Set(d).Source)
	v := r.view(&in)
	candidates, _ := r.candidates(&v, &in)
	last := lastOf(&v, candidates, func(int) bool { return true })
	var all []Ranked
	for i := range in.groups {
		g := &in.groups[i]
		for k := range g.Endpoints {
			e := &g.Endpoints[k]
			rank := r.rankOf(&v, in.headless, g, e)
			all = append(all, Ranked{
				Endpoint: *e, Cluster: g.Cluster, Region: g.Region, Rank: rank, Tier: v.Tier(rank),
				Used: in.source != SourceClusterSetIPs && e.Ready && rank.Usable() && rank <= last,
			})
		}
	}
	return all
}
