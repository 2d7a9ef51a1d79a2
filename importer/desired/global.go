package desired

import (
	"cmp"
	"slices"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/policy"
)

// maxGlobalServiceBytes bounds the size of a GlobalService's endpoints. etcd refuses objects of more than 1.5 MiB, and the managed
// fields take some of that.
const maxGlobalServiceBytes = 1 << 20

// globalService returns the GlobalService with its status, FabDNS's description of where the service runs. A ClusterSetIP service has
// each exporter's ClusterIPs, or the external addresses of one of another network, a Headless one each endpoint, with their locations. Rule C33
// of docs/spec/control-plane.md.
func (w *work) globalService() *fabedgev1alpha1.GlobalService {
	g := &fabedgev1alpha1.GlobalService{
		ObjectMeta: w.objectMeta(w.in.Key.Name),
		Spec:       fabedgev1alpha1.GlobalServiceSpec{Type: fabedgev1alpha1.ClusterIP},
	}
	if w.resolved.Type == mcsv1beta1.Headless {
		g.Spec.Type = fabedgev1alpha1.Headless
	}
	g.Annotations = policy.Annotations(w.resolved.Policy)
	for _, p := range w.resolved.Ports {
		g.Spec.Ports = append(g.Spec.Ports, fabedgev1alpha1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	most := len(w.clusters)
	if g.Spec.Type == fabedgev1alpha1.Headless {
		for _, r := range w.records {
			most += len(r.endpoints)
		}
	}
	all := make([]fabedgev1alpha1.Endpoint, 0, most)
	for _, c := range w.clusters {
		all = w.globalEndpoints(all, c)
	}
	g.Spec.Endpoints = fitting(all)
	g.Status.TruncatedEndpoints = int32(len(all) - len(g.Spec.Endpoints))
	return g
}

// fitting returns the endpoints that there is room for, in the order in which they are kept.
func fitting(all []fabedgev1alpha1.Endpoint) []fabedgev1alpha1.Endpoint {
	slices.SortStableFunc(all, func(a, b fabedgev1alpha1.Endpoint) int {
		return cmp.Or(cmp.Compare(unready(&a), unready(&b)), cmp.Compare(a.Cluster, b.Cluster), slices.Compare(a.Addresses, b.Addresses))
	})
	size := 0
	for i := range all {
		if size += sizeOf(&all[i]); size > maxGlobalServiceBytes || i == api.MaxGlobalServiceEndpoints {
			return all[:i]
		}
	}
	return all
}

func unready(e *fabedgev1alpha1.Endpoint) int {
	if e.IsReady() {
		return 0
	}
	return 1
}

// globalEndpoints appends all endpoints of a cluster.
func (w *work) globalEndpoints(all []fabedgev1alpha1.Endpoint, c *cluster) []fabedgev1alpha1.Endpoint {
	switch {
	case w.resolved.Type == mcsv1beta1.Headless:
	case !c.apart && w.offersClusterIP(c):
		return append(all, w.clusterIPEndpoint(c))
	case !c.apart || !w.exposesAny(c):
		return all
	}
	for _, r := range c.records {
		ports := w.portsOf(r)
		for i := range r.endpoints {
			from := &r.endpoints[i]
			ep := c.globalEndpoint(from.Addresses)
			ep.Hostname, ep.Ports = from.Hostname, ports
			if from.Zone != nil {
				ep.Zone = *from.Zone
			}
			if from.Conditions.Ready != nil && !*from.Conditions.Ready {
				ep.Ready = from.Conditions.Ready
			}
			all = append(all, ep)
		}
	}
	return all
}

// clusterIPEndpoint returns the one endpoint of a cluster that has a ClusterIP for the service.
func (w *work) clusterIPEndpoint(c *cluster) fabedgev1alpha1.Endpoint {
	ep := c.globalEndpoint(c.ips)
	if w.without(c) {
		ep.Ready = new(bool)
	}
	if len(c.ports) < len(w.resolved.Ports) {
		for _, p := range c.ports {
			ep.Ports = append(ep.Ports, fabedgev1alpha1.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
		}
	}
	return ep
}

// globalEndpoint returns an endpoint with its cluster's location. If the cluster has several zones, the zone is left out: any of them could be
// wrong, and DNS reads all of them from the MemberCluster.
func (c *cluster) globalEndpoint(addresses []string) fabedgev1alpha1.Endpoint {
	ep := fabedgev1alpha1.Endpoint{Cluster: c.name, Region: c.member.Region, Addresses: addresses}
	if len(c.member.Zones) == 1 {
		ep.Zone = c.member.Zones[0]
	}
	return ep
}

// portsOf returns the ports that the endpoints listen on, nil if they are the service's. If the cluster exposes none of the service's
// ports, nil would mean all of them, so it returns a port without a name, which has no SRV record.
func (w *work) portsOf(r *record) []fabedgev1alpha1.EndpointPort {
	same := true
	var ports []fabedgev1alpha1.EndpointPort
	for _, p := range r.ports {
		i := slices.IndexFunc(w.resolved.Ports, func(m merge.Port) bool { return m.Name == *p.Name })
		same = same && w.resolved.Ports[i].Port == *p.Port
		ports = append(ports, fabedgev1alpha1.EndpointPort{Name: *p.Name, Protocol: *p.Protocol, Port: *p.Port})
	}
	switch {
	case same && len(ports) == len(w.resolved.Ports):
		return nil
	case len(ports) == 0:
		p := w.resolved.Ports[0] // without a name, to differ from nil
		return []fabedgev1alpha1.EndpointPort{{Protocol: p.Protocol, Port: p.Port}}
	default:
		return ports
	}
}

// SizeOfEndpoints returns about how many bytes a GlobalService's endpoints take as JSON, at least.
func SizeOfEndpoints(g *fabedgev1alpha1.GlobalService) (size int) {
	for i := range g.Spec.Endpoints {
		size += sizeOf(&g.Spec.Endpoints[i])
	}
	return size
}

// sizeOf returns about how many bytes an endpoint takes as JSON, at least.
func sizeOf(e *fabedgev1alpha1.Endpoint) int {
	n := 64 + len(e.Cluster) + len(e.Zone) + len(e.Region)
	for _, a := range e.Addresses {
		n += len(a) + 3
	}
	if e.Hostname != nil {
		n += len(*e.Hostname) + 14
	}
	for i := range e.Ports {
		n += 45 + len(e.Ports[i].Name)
	}
	return n
}
