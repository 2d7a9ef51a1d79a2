package desired

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// each exporter's ClusterIPs, or the external addresses of one of another network, a Headless one each endpoint, with their locations. here is
// the one that exists, or nil.
func (w *work) globalService(here *fabedgev1alpha1.GlobalService) *fabedgev1alpha1.GlobalService {
	m := w.memory
	last := m.lastGlobal(here)
	if m.globalOf != w.merged || last == nil {
		last, m.globalOf, m.shares = nil, w.merged, nil
	}
	shares := w.shares()
	fit(shares, api.MaxGlobalServiceEndpoints, w.run)
	same := last != nil && len(shares) == len(m.shares)
	of, kept := 0, 0
	for i := range shares {
		same = same && shares[i].settled()
		of, kept = of+shares[i].of, kept+shares[i].n
	}
	if !same {
		g := &fabedgev1alpha1.GlobalService{
			ObjectMeta: w.objectMeta(w.in.Key.Name),
			Spec:       fabedgev1alpha1.GlobalServiceSpec{Type: fabedgev1alpha1.ClusterIP},
		}
		if w.resolved.Type == mcsv1beta1.Headless {
			g.Spec.Type = fabedgev1alpha1.Headless
		}
		g.Annotations = policy.Annotations(w.resolved.Policy)
		for _, p := range w.resolved.Ports {
			g.Spec.Ports = append(g.Spec.Ports, fabedgev1alpha1.ServicePort{
				Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port,
			})
		}
		if kept > 0 {
			g.Spec.Endpoints = make([]fabedgev1alpha1.Endpoint, 0, kept)
		}
		for i := range shares {
			s := &shares[i]
			var chosen []fabedgev1alpha1.Endpoint
			if s.settled() {
				chosen = last.Spec.Endpoints[s.at : s.at+s.n]
			} else {
				chosen = s.chosen(w.run)
			}
			s.at, s.had = len(g.Spec.Endpoints), s.n
			g.Spec.Endpoints = append(g.Spec.Endpoints, chosen...)
		}
		g.Status = globalStatus(g.Spec.Endpoints, of)
		last, m.global, m.globalFound = g, g, ""
	}
	for i := range shares {
		shares[i].all = nil
	}
	m.shares = shares
	return last
}

// lastGlobal returns the GlobalService of the last computation, or nil. One that was found here isn't kept a second time: it is the one here.
func (m *Memory) lastGlobal(here *fabedgev1alpha1.GlobalService) *fabedgev1alpha1.GlobalService {
	switch {
	case m.globalFound == "":
		return m.global
	case m.HasFoundGlobal(here):
		return here
	}
	return nil
}

// run returns all endpoints of a cluster, sorted by address.
func (w *work) run(s *share) []fabedgev1alpha1.Endpoint {
	switch {
	case w.resolved.Type == mcsv1beta1.Headless:
		return w.endpointsOfRecords(s)
	case !s.cluster.apart:
		return w.clusterIPEndpoints(s)
	case w.exposesAny(s.cluster):
		return w.endpointsOfRecords(s)
	}
	return nil
}

// clusterIPEndpoints returns the one endpoint of a cluster that has a ClusterIP for the service.
func (w *work) clusterIPEndpoints(s *share) []fabedgev1alpha1.Endpoint {
	c := s.cluster
	if !w.offersClusterIP(c) {
		return nil
	}
	ep := c.endpoint("")
	ep.Addresses = slices.Clone(w.offer(c.name).ips)
	if s.without {
		ep.Ready = new(bool)
	}
	if len(c.ports) < len(w.resolved.Ports) {
		for _, p := range c.ports {
			ep.Ports = append(ep.Ports, fabedgev1alpha1.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
		}
	}
	return []fabedgev1alpha1.Endpoint{ep}
}

// endpointsOfRecords returns every endpoint of a cluster, or each of its external addresses, sorted by address.
func (w *work) endpointsOfRecords(s *share) []fabedgev1alpha1.Endpoint {
	var all []fabedgev1alpha1.Endpoint
	for _, r := range s.records {
		ports := w.portsOf(r)
		endpoints := w.endpointsOf(r)
		for i := range endpoints {
			from := &endpoints[i]
			zone := ""
			if from.Zone != nil {
				zone = *from.Zone
			}
			ep := r.cluster.endpoint(zone)
			ep.Addresses, ep.Hostname, ep.Ports = slices.Clone(from.Addresses), from.Hostname, ports
			if !isReady(from) {
				ep.Ready = new(bool)
			}
			all = append(all, ep)
		}
	}
	slices.SortStableFunc(all, func(a, b fabedgev1alpha1.Endpoint) int { return slices.Compare(a.Addresses, b.Addresses) })
	return all
}

// endpoint returns an endpoint with its location. Its own zone takes precedence over its cluster's. If the cluster has several zones,
// the zone is left out: any of them could be wrong, and DNS reads all of them from the MemberCluster.
func (c *cluster) endpoint(zone string) fabedgev1alpha1.Endpoint {
	if zone == "" && len(c.member.Zones) == 1 {
		zone = c.member.Zones[0]
	}
	return fabedgev1alpha1.Endpoint{Cluster: c.name, Zone: zone, Region: c.member.Region}
}

// portsOf returns the ports that the endpoints listen on, nil if they are the service's. If the cluster exposes none of the service's
// ports, nil would mean all of them, so it returns a port without a name, which has no SRV record.
func (w *work) portsOf(r *record) []fabedgev1alpha1.EndpointPort {
	same := true
	var ports []fabedgev1alpha1.EndpointPort
	for _, p := range r.ports {
		i := slices.IndexFunc(w.resolved.Ports, func(m merge.Port) bool { return m.Name == *p.Name })
		if i < 0 {
			continue // a former name, which only kube-proxy needs
		}
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

// globalStatus counts the endpoints in the spec and those that didn't fit. It is empty if all fit, because the spec shows them
// anyway: that saves a write per change.
func globalStatus(kept []fabedgev1alpha1.Endpoint, of int) fabedgev1alpha1.GlobalServiceStatus {
	if len(kept) == of {
		return fabedgev1alpha1.GlobalServiceStatus{}
	}
	status := fabedgev1alpha1.GlobalServiceStatus{
		Endpoints:          int32(len(kept)),
		TruncatedEndpoints: int32(of - len(kept)),
	}
	clusters := map[string]bool{}
	for i := range kept {
		clusters[kept[i].Cluster] = true
		if kept[i].IsReady() {
			status.ReadyEndpoints++
		}
	}
	status.Clusters = int32(len(clusters))
	status.Conditions = []metav1.Condition{{
		Type: fabedgev1alpha1.ConditionTruncated, Status: metav1.ConditionTrue, Reason: fabedgev1alpha1.ReasonTooManyEndpoints,
		Message: fmt.Sprintf("the spec has %d of %d endpoints, shared out between %s", len(kept), of, Counted(len(clusters), "cluster")),
	}}
	return status
}
