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

// route is what the service proxies of the cluster are told of an endpoint behind a ClusterSetIP.
type route struct {
	// routed says that they know it.
	routed bool
	// zones are those in which they use it. None: in all.
	zones []string
}

// routes are what the EndpointSlices behind a service's ClusterSetIP tell, by address. There are none where no slice is meant for
// service proxies: who wrote the import has another way. byClusterIP are the clusters of which a ClusterIP stands there.
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
				r := routes[address] // of another port
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
	for address, r := range routes { // hints count where every ready endpoint of the family has one
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

// behind says what is made of an endpoint behind a ClusterSetIP, and why as seen from where the query comes from.
func (j judge) behind(p *index.Ranked, cluster *index.Cluster) string {
	if j.routes == nil {
		return "behind the ClusterSetIP, where the service proxy chooses"
	}
	r, known := j.routes[p.Addr.String()]
	zones := slices.DeleteFunc(slices.Clone(r.zones), func(zone string) bool { return zone == api.HintNone })
	health := ""
	if cluster.Drain || p.Cluster != j.query.From.Cluster && cluster.Phase != topology.Ready {
		health = "its cluster is " + cluster.Ailment()
	}
	switch {
	case !known || !r.routed && j.byClusterIP[p.Cluster]:
		return "behind the ClusterSetIP stands its cluster's ClusterIP"
	case !r.routed:
		return "kept from kube-proxy: " + cmp.Or(health, "beyond the boundary, or farther than what is ready")
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
