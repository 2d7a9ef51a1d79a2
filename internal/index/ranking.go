package index

import "github.com/clusterset/clusterset/internal/topology"

// Ranked is an endpoint and what the ranking made of it.
type Ranked struct {
	Endpoint
	// Cluster is the endpoint's, Region its own, empty for the cluster's.
	Cluster, Region string
	// Verdict says whether it may be served; Tier and Degraded how well it suits where it may.
	Verdict  Verdict
	Tier     topology.Tier
	Degraded bool
	// Best endpoints are those whose addresses the Set has.
	Best bool
}

// Ranking lists the endpoints behind a service in a dialect, as they were ranked. It is for explanations: it ranks them anew and
// takes the lock that changes take.
func (x *Index) Ranking(svc *Service, d Dialect) []Ranked {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.ranker()
	set, groups := svc.Set(d), svc.groups()
	if set.Source == SourceGlobalService {
		groups = svc.global.Groups
	}
	candidates, _ := r.candidates(groups)
	best := bestOf(candidates, func(*candidate) bool { return true })
	var all []Ranked
	for i := range groups {
		g := &groups[i]
		for k := range g.Endpoints {
			j := r.judge(g, &g.Endpoints[k])
			all = append(all, Ranked{
				Endpoint: g.Endpoints[k], Cluster: g.Cluster, Region: g.Region,
				Verdict: j.verdict, Tier: j.tier, Degraded: j.rank >= degradedRank,
				Best: set.Source != SourceClusterSetIPs && j.verdict == Eligible && j.rank == best,
			})
		}
	}
	return all
}
