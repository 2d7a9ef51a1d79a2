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

// route is what EndpointSlices tell the cluster's service proxies about an endpoint behind a ClusterSetIP.
type route struct {
	// routed says that a slice for service proxies has the endpoint.
	routed bool
	// zones are the zones of its hints, if they count. None: it isn't limited to zones.
	zones []string
	// used says that the service proxies where the name is asked for send connections to it.
	used bool
}

// routes returns what the EndpointSlices behind a service's ClusterSetIP say, by address, and to the service proxies in a zone. It returns nil
// if no slice is for service proxies: another implementation, which routes in its own way, wrote the import. byClusterIP are the clusters for
// which their ClusterIP is an endpoint, with whether that is used.
func (f *Facts) routes(key index.ServiceKey, zone string) (routes map[string]route, byClusterIP map[string]bool) {
	derived := api.DerivedServiceName(key.Namespace(), key.Name())
	routes, byClusterIP = map[string]route{}, map[string]bool{}
	var routed []*discoveryv1.EndpointSlice
	for _, s := range f.slices {
		switch {
		case s.Namespace != key.Namespace():
		case s.Labels[discoveryv1.LabelServiceName] == derived:
			routed = append(routed, s)
		case s.Labels[api.LabelServiceName] == key.Name():
			for i := range s.Endpoints {
				for _, address := range s.Endpoints[i].Addresses {
					routes[address] = route{}
				}
			}
		}
	}
	if len(routed) == 0 {
		return nil, nil
	}
	for _, ready := range kubeproxy.Ready(routed) {
		hinted := len(kubeproxy.Zones(ready)) > 0
		used := map[*discoveryv1.Endpoint]bool{}
		for _, e := range kubeproxy.In(ready, zone) {
			used[e.Endpoint] = true
		}
		for _, e := range ready {
			if e.ClusterIP {
				byClusterIP[e.Cluster] = byClusterIP[e.Cluster] || used[e.Endpoint]
			}
			for _, address := range e.Addresses {
				r := routes[address] // the address may have an entry from another port
				r.routed, r.used = true, r.used || used[e.Endpoint]
				if hinted {
					for _, z := range e.Hints.ForZones {
						r.zones = append(r.zones, z.Name)
					}
				}
				slices.Sort(r.zones)
				r.zones = slices.Compact(r.zones)
				routes[address] = r
			}
		}
	}
	return routes, byClusterIP
}

// behind explains what service proxies do with an endpoint behind a ClusterSetIP, as seen from the query's location.
func (j judge) behind(p *index.Ranked, cluster *index.Cluster) (used bool, reason string) {
	if j.routes == nil {
		return false, "behind the ClusterSetIP; kube-proxy chooses"
	}
	r, known := j.routes[p.Addr.String()]
	own, byClusterIP := j.byClusterIP[p.Cluster]
	zones := slices.DeleteFunc(slices.Clone(r.zones), func(zone string) bool { return zone == api.HintNone })
	health := ""
	if cluster.Drain || p.Cluster != j.query.From.Cluster && (cluster.Phase != topology.Ready || cluster.Unreachable) {
		health = "its cluster is " + cluster.Ailment()
	}
	switch {
	case byClusterIP && !r.routed:
		return own, "its cluster's ClusterIP is behind the ClusterSetIP"
	case !known || !r.routed:
		return false, "not given to kube-proxy: " + cmp.Or(health, "outside the boundary, or farther away than a ready endpoint")
	case len(r.zones) == 0:
		return r.used, "kube-proxy uses it on every node" + but(health)
	case len(zones) == 0:
		return r.used, "kube-proxy uses others: " + cmp.Or(health, "nearer ones are ready")
	}
	return r.used, "kube-proxy uses it in zone " + strings.Join(zones, ", ") + but(health)
}

func but(health string) string {
	if health == "" {
		return ""
	}
	return ", as the last resort: " + health
}
