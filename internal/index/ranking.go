package index

import "github.com/clusterset/clusterset/internal/topology"

// Ranked is an endpoint with the result of ranking it.
type Ranked struct {
	Endpoint
	// Cluster is the endpoint's, Region its own, empty for the cluster's. Member is what is known of the cluster.
	Cluster, Region string
	Member          topology.Member
	// Rank is the endpoint's rank if it were ready, and Tier the tier in which it would be used.
	Rank topology.Rank
	Tier topology.Tier
	// Beyond is the share of its cluster that the endpoint is beyond, nil if it isn't spare.
	Beyond *topology.Share
	// Used is set if the Set has the endpoint's address.
	Used bool
}

// Ranking lists the endpoints behind a service in a dialect, with their ranks. It is for explanations: it ranks them again, and
// takes the lock that writers take.
func (x *Index) Ranking(svc *Service, d Dialect) []Ranked {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.ranker()
	in := svc.ranked(svc.Set(d).Source)
	v := r.view(&in)
	candidates, _ := r.candidates(&v, &in)
	last := lastOf(&v, candidates, func(i int) bool { return !candidates[i].elsewhere })
	shares := in.shares()
	var all []Ranked
	for i := range in.groups {
		g := &in.groups[i]
		elsewhere := in.source == SourceGlobalService && !in.headless && g.elsewhere(in.ports)
		var member topology.Member
		if c := r.clusters[g.Cluster]; c != nil {
			member = c.Member
		}
		for k := range g.Endpoints {
			e := &g.Endpoints[k]
			beyond := shares[g.Cluster]
			if !beyond.Spare(e.Addr, !in.headless) {
				beyond = nil
			}
			rank := r.rankOf(&v, in.headless, g, e, beyond != nil)
			all = append(all, Ranked{
				Endpoint: *e, Cluster: g.Cluster, Region: g.Region, Member: member, Rank: rank, Tier: v.Tier(rank), Beyond: beyond,
				Used: in.source != SourceClusterSetIPs && e.Ready && rank.Usable() && rank <= last && !elsewhere,
			})
		}
	}
	return all
}
