package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/kubeproxy"
	"github.com/clusterset/clusterset/internal/topology"
)

// judge explains for each endpoint whether it is answered, and why.
type judge struct {
	query Query
	at    found
	// nearest is the tier of the nearest endpoints in use.
	nearest topology.Tier
	// elsewhere says that the ClusterSetIP is another cluster's than the one whose objects these are.
	elsewhere bool
	// routes are what service proxies do behind the ClusterSetIP, nil if that isn't known.
	routes *routes
}

func endpoints(j judge, all []index.Ranked) []Endpoint {
	var out []Endpoint
	for i := range all {
		p := &all[i]
		if j.at.hides(p.Cluster, cmp.Or(p.Hostname, index.HostnameOf(p.Addr)), p.Addr) {
			continue
		}
		e := Endpoint{
			Place:   place.Place{Cluster: p.Cluster, Zone: cmp.Or(p.Zone, strings.Join(p.Member.Zones, ",")), Region: cmp.Or(p.Region, p.Member.Region)},
			Address: p.Addr.String(), Hostname: p.Hostname,
		}
		if p.Ready && p.Rank.Usable() {
			e.Tier = p.Tier.String()
		}
		e.Used, e.Reason = j.verdict(p)
		e.Answered = e.Used && !j.at.vip
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

// verdict returns whether clients use an endpoint, and why.
func (j judge) verdict(p *index.Ranked) (used bool, reason string) {
	ailing := j.ailing(p)
	switch {
	case j.at.vip && p.Ready:
		return j.behind(p)
	case p.Rank == topology.Gone:
		return false, "its cluster has expired: no heartbeat for too long"
	case !p.Ready:
		return false, "not ready"
	case p.Rank == topology.Outside:
		return false, fmt.Sprintf("outside of the boundary: not in the server's %s", j.query.Policy.Boundary)
	case j.at.result != Answer:
		return false, "the queried name has no addresses"
	case !j.at.ranked:
		return true, "it is what the name stands for"
	case p.Rank.Degraded() && !j.at.Set.Degraded:
		return false, ailing + ", so every healthy endpoint comes first"
	case !p.Used && p.Tier == topology.Any:
		return false, fmt.Sprintf("not near; the server's own %s answers", j.at.Set.Tier)
	case !p.Used:
		return false, fmt.Sprintf("in the server's %s; its own %s answers", p.Tier, j.at.Set.Tier)
	case p.Rank.Degraded():
		return true, ailing + ", but no healthy one is left"
	case p.Tier != j.nearest:
		return true, fmt.Sprintf("fewer than %d are nearer", j.query.Policy.MinReady)
	case p.Tier == topology.Any:
		return true, "no preferred tier has a healthy one"
	}
	return true, fmt.Sprintf("in the server's own %s", p.Tier)
}

// ailing says why an endpoint ranks last, and nothing if it doesn't.
func (j judge) ailing(p *index.Ranked) string {
	switch m := p.Member; {
	case m.Drain || p.Cluster != j.query.From.Cluster && m.Ailment() != "":
		return "its cluster is " + m.Ailment()
	case p.Beyond != nil && (p.Beyond.Percent == 0 || j.routes == nil || !j.routes.external[p.Cluster]):
		return fmt.Sprintf("it is beyond its cluster's share of %d%%", p.Beyond.Percent)
	}
	return ""
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// routes say what the service proxies in a zone do with the endpoints in the EndpointSlices behind a ClusterSetIP: whether they use them. What isn't
// there isn't given to them.
type routes struct {
	addresses map[string]bool
	// clusters are those whose ClusterIP stands for all their endpoints.
	clusters map[string]bool
	// external are those that are reached at external addresses, which stand for all their endpoints.
	external map[string]bool
}

// routes returns nil if no slice is for service proxies: another implementation, which routes in its own way, wrote the import.
func (f *Facts) routes(key index.ServiceKey, zone string) *routes {
	derived := api.DerivedServiceName(key.Namespace(), key.Name())
	var behind []*discoveryv1.EndpointSlice
	for _, s := range f.slices {
		if s.Namespace == key.Namespace() && s.Labels[discoveryv1.LabelServiceName] == derived {
			behind = append(behind, s)
		}
	}
	if len(behind) == 0 {
		return nil
	}
	r := &routes{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, s := range behind {
		_, external := s.Annotations[api.AnnotationExternal]
		r.external[s.Labels[api.LabelSourceCluster]] = external
	}
	for _, ready := range kubeproxy.Ready(behind) {
		used := map[*discoveryv1.Endpoint]bool{}
		for _, e := range kubeproxy.In(ready, zone) {
			used[e.Endpoint] = true
		}
		for _, e := range ready {
			if e.ClusterIP {
				r.clusters[e.Cluster] = r.clusters[e.Cluster] || used[e.Endpoint]
			}
			for _, address := range e.Addresses {
				r.addresses[address] = r.addresses[address] || used[e.Endpoint] // it may be used for another port
			}
		}
	}
	return r
}

// behind explains what service proxies do with a ready endpoint behind a ClusterSetIP, as seen from the query's location.
func (j judge) behind(p *index.Ranked) (used bool, reason string) {
	if j.routes == nil {
		return false, "behind the ClusterSetIP; kube-proxy chooses"
	}
	used, routed := j.routes.addresses[p.Addr.String()]
	ailing := j.ailing(p)
	usedByClusterIP, byClusterIP := j.routes.clusters[p.Cluster]
	switch {
	case byClusterIP && !routed:
		return usedByClusterIP, "its cluster's ClusterIP is behind the ClusterSetIP"
	case !routed:
		return false, "not given to kube-proxy: " + cmp.Or(ailing, "outside the boundary, or farther away than a ready endpoint")
	case !used:
		return false, "kube-proxy uses others: " + cmp.Or(ailing, "nearer ones are ready")
	case ailing != "":
		return true, "kube-proxy uses it as the last resort: " + ailing
	}
	return true, "kube-proxy uses it"
}
