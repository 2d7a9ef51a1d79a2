package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// judge explains for each endpoint whether it is answered, and why.
type judge struct {
	query    Query
	at       found
	clusters map[string]*index.Cluster
	// nearest is the tier of the nearest endpoints in use.
	nearest topology.Tier
	// passedOver says that a ready one isn't used. If all healthy ones are, its cluster isn't healthy.
	passedOver bool
	// elsewhere says that the ClusterSetIP is another cluster's than the one whose objects these are.
	elsewhere   bool
	routes      map[string]route
	byClusterIP map[string]bool
}

func endpoints(j judge, all []index.Ranked) []Endpoint {
	var out []Endpoint
	for i := range all {
		p := &all[i]
		if j.at.hides(p.Cluster, cmp.Or(p.Hostname, index.HostnameOf(p.Addr)), p.Addr) {
			continue
		}
		cluster := cmp.Or(j.clusters[p.Cluster], &index.Cluster{})
		e := Endpoint{
			Place:   place.Place{Cluster: p.Cluster, Zone: cmp.Or(p.Zone, zones(cluster)), Region: cmp.Or(p.Region, cluster.Region)},
			Address: p.Addr.String(), Hostname: p.Hostname,
		}
		if p.Ready && p.Rank.Usable() {
			e.Tier = p.Tier.String()
		}
		e.Answered, e.Used, e.Reason = j.verdict(p, cluster)
		out = append(out, e)
	}
	order := append(tiers(j.query.Policy), "") // endpoints without a tier come last
	rank := func(e Endpoint) int { return slices.Index(order, e.Tier) }
	slices.SortStableFunc(out, func(a, b Endpoint) int {
		return cmp.Or(boolean(b.Used)-boolean(a.Used), cmp.Compare(rank(a), rank(b)),
			cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Address, b.Address))
	})
	return out
}

// verdict returns whether an endpoint is in the answer, whether clients use it, and why.
func (j judge) verdict(p *index.Ranked, cluster *index.Cluster) (answered, used bool, reason string) {
	switch {
	case j.at.vip && p.Ready:
		used, reason := j.behind(p, cluster)
		return false, used, reason
	case p.Rank == topology.Gone:
		return false, false, "its cluster has expired: no heartbeat for too long"
	case !p.Ready:
		return false, false, "not ready"
	case p.Rank == topology.Outside:
		return false, false, fmt.Sprintf("outside of the boundary: not in the server's %s", j.query.Policy.Boundary)
	case j.at.result != Answer:
		return false, false, "the queried name has no addresses"
	case !j.at.ranked:
		return true, true, "it is what the name stands for"
	}
	switch {
	case p.Rank.Degraded() && !j.at.Set.Degraded:
		return false, false, "its cluster is " + cluster.Ailment() + ", so every healthy endpoint comes first"
	case !p.Used:
		return false, false, farther(p.Tier, j.at.Set.Tier)
	case p.Rank.Degraded():
		return true, true, "its cluster is " + cluster.Ailment() + ", but no healthy one is left"
	case j.alike():
		return true, true, "no tier is preferred"
	case p.Tier != j.nearest:
		return true, true, fmt.Sprintf("fewer than %d are nearer", j.query.Policy.MinReady)
	case p.Tier == topology.Any:
		if j.passedOver {
			return true, true, "nothing nearer is ready and healthy"
		}
		return true, true, "nothing nearer is ready"
	}
	return true, true, fmt.Sprintf("in the server's own %s", p.Tier)
}

func zones(cluster *index.Cluster) string { return strings.Join(cluster.Zones, ",") }

func farther(own, best topology.Tier) string {
	if own == topology.Any {
		return fmt.Sprintf("not near; the server's own %s answers", best)
	}
	return fmt.Sprintf("in the server's %s; its own %s answers", own, best)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
