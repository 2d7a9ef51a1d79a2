package explain

import (
	"cmp"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/kubeproxy"
	"github.com/clusterset/clusterset/internal/topology"
)

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
