package explain

import (
	"cmp"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// route is what EndpointSlices tell the cluster's service proxies about an endpoint behind a ClusterSetIP.
type route struct {
	// routed says that a slice for service proxies has the endpoint.
	routed bool
	// zones are the zones in which they use it. None: in all.
	zones []string
}

// routes returns what the EndpointSlices behind a service's ClusterSetIP say, by address. It returns nil if no slice is for service
// proxies: another implementation, which routes in its own way, wrote the import. byClusterIP are the clusters for which their
// ClusterIP is an endpoint.
func (f *Facts) routes(key index.ServiceKey) (routes map[string]route, byClusterIP map[string]bool) {
	derived := api.DerivedServiceName(key.Namespace(), key.Name())
	told := false
	unhinted := map[discoveryv1.AddressType]bool{}
	routes, byClusterIP = map[string]route{}, map[string]bool{}
	for _, s := range f.slices {
		if s.Namespace != key.Namespace() || s.Labels[api.LabelServiceName] != key.Name() && s.Labels[discoveryv1.LabelServiceName] != derived {
			continue
		}
		routed := s.Labels[discoveryv1.LabelServiceName] == derived
		told = told || routed
		if s.Labels[api.LabelServiceName] == "" {
			byClusterIP[s.Labels[api.LabelSourceCluster]] = true
		}
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			zones := hinted(e)
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready
			unhinted[s.AddressType] = unhinted[s.AddressType] || routed && ready && len(zones) == 0
			for _, address := range e.Addresses {
				r := routes[address] // the address may have an entry from another port's slice
				r.routed = r.routed || routed
				r.zones = append(r.zones, zones...)
				slices.Sort(r.zones)
				r.zones = slices.Compact(r.zones)
				routes[address] = r
			}
		}
	}
	if !told {
		return nil, nil
	}
	for address, r := range routes { // hints are used only if every ready endpoint of the family has one
		family := discoveryv1.AddressTypeIPv4
		if strings.Contains(address, ":") {
			family = discoveryv1.AddressTypeIPv6
		}
		if unhinted[family] {
			r.zones = nil
			routes[address] = r
		}
	}
	return routes, byClusterIP
}

func hinted(e *discoveryv1.Endpoint) (zones []string) {
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			zones = append(zones, z.Name)
		}
	}
	return zones
}

// behind explains what service proxies do with an endpoint behind a ClusterSetIP, as seen from the query's location.
func (j judge) behind(p *index.Ranked, cluster *index.Cluster) string {
	if j.routes == nil {
		return "behind the ClusterSetIP; kube-proxy chooses"
	}
	r, known := j.routes[p.Addr.String()]
	zones := slices.DeleteFunc(slices.Clone(r.zones), func(zone string) bool { return zone == api.HintNone })
	health := ""
	if cluster.Drain || p.Cluster != j.query.From.Cluster && cluster.Phase != topology.Ready {
		health = "its cluster is " + cluster.Ailment()
	}
	switch {
	case !known || !r.routed && j.byClusterIP[p.Cluster]:
		return "its cluster's ClusterIP is behind the ClusterSetIP"
	case !r.routed:
		return "not given to kube-proxy: " + cmp.Or(health, "outside the boundary, or farther away than a ready endpoint")
	case len(r.zones) == 0:
		return "kube-proxy uses it on every node" + but(health)
	case len(zones) == 0:
		return "kube-proxy uses others: " + cmp.Or(health, "nearer ones are ready")
	}
	return "kube-proxy uses it in zone " + strings.Join(zones, ", ") + but(health)
}

func but(health string) string {
	if health == "" {
		return ""
	}
	return ", as the last resort: " + health
}
