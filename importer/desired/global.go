package desired

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/policy"
)

// maxGlobalServiceBytes bounds what a GlobalService's endpoints may come to. etcd refuses objects of more than 1.5 MiB, and
// the managed fields take their part.
const maxGlobalServiceBytes = 1 << 20

// globalService returns the GlobalService with its status, FabDNS's way to say where the service is: of a ClusterSetIP
// service each exporter's ClusterIPs, of a Headless one each endpoint, with their places.
func (w *work) globalService() *fabedgev1alpha1.GlobalService {
	g := &fabedgev1alpha1.GlobalService{
		ObjectMeta: w.objectMeta(w.in.Key.Name),
		Spec:       fabedgev1alpha1.GlobalServiceSpec{Type: fabedgev1alpha1.ClusterIP},
	}
	g.Annotations = policy.Annotations(w.resolved.Policy)
	for _, p := range w.resolved.Ports {
		g.Spec.Ports = append(g.Spec.Ports, fabedgev1alpha1.ServicePort{
			Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port,
		})
	}
	var all []fabedgev1alpha1.Endpoint
	if w.resolved.Type == mcsv1beta1.Headless {
		g.Spec.Type = fabedgev1alpha1.Headless
		all = w.headlessEndpoints()
	} else {
		all = w.clusterIPEndpoints()
	}
	g.Spec.Endpoints = truncate(all, api.MaxGlobalServiceEndpoints)
	g.Status = globalStatus(g.Spec.Endpoints, len(all))
	return g
}

// clusterIPEndpoints returns one endpoint for each cluster that has a ClusterIP for the service.
func (w *work) clusterIPEndpoints() []fabedgev1alpha1.Endpoint {
	var all []fabedgev1alpha1.Endpoint
	for _, e := range w.exports {
		if !w.offersClusterIP(e.Cluster) {
			continue
		}
		exposed := w.exposed(e.Cluster)
		ep := w.endpoint(e.Cluster, "")
		ep.Addresses = slices.Clone(e.Service.Spec.ClusterIPs)
		if w.without(e.Cluster) {
			ep.Ready = new(bool)
		}
		if len(exposed) < len(w.resolved.Ports) {
			for _, p := range exposed {
				ep.Ports = append(ep.Ports, fabedgev1alpha1.EndpointPort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
			}
		}
		all = append(all, ep)
	}
	return all
}

// headlessEndpoints returns every endpoint, sorted by cluster and address.
func (w *work) headlessEndpoints() []fabedgev1alpha1.Endpoint {
	var all []fabedgev1alpha1.Endpoint
	for _, e := range w.endpoints {
		ports := w.portsOf(e)
		for i := range e.Endpoints.Spec.Endpoints {
			from := &e.Endpoints.Spec.Endpoints[i]
			zone := ""
			if from.Zone != nil {
				zone = *from.Zone
			}
			ep := w.endpoint(e.Cluster, zone)
			ep.Addresses, ep.Hostname, ep.Ports = slices.Clone(from.Addresses), from.Hostname, ports
			if !isReady(from) {
				ep.Ready = new(bool)
			}
			all = append(all, ep)
		}
	}
	slices.SortStableFunc(all, func(a, b fabedgev1alpha1.Endpoint) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), slices.Compare(a.Addresses, b.Addresses))
	})
	return all
}

// endpoint returns an endpoint in its place. Its own zone counts before its cluster's. That of a cluster with several zones is
// left out: one of them would be wrong, and DNS knows them all from the MemberCluster.
func (w *work) endpoint(cluster, zone string) fabedgev1alpha1.Endpoint {
	ep := fabedgev1alpha1.Endpoint{Cluster: cluster, Zone: zone}
	if m := w.in.Members[cluster]; m != nil {
		ep.Region = m.Spec.Region
		if zones := m.AllZones(); zone == "" && len(zones) == 1 {
			ep.Zone = zones[0]
		}
	}
	return ep
}

// portsOf returns the ports that the endpoints listen on, nil where they are the service's. Where the cluster exposes none
// of the service's ports nil would mean all of them; a port without a name says otherwise, since it has no SRV record.
func (w *work) portsOf(e merge.Endpoints) []fabedgev1alpha1.EndpointPort {
	kept := renamed(e.Endpoints.Spec.Ports, w.exposed(e.Cluster))
	same := len(kept) == len(w.resolved.Ports)
	var ports []fabedgev1alpha1.EndpointPort
	for _, p := range kept {
		i := slices.IndexFunc(w.resolved.Ports, func(r merge.Port) bool { return r.Name == *p.Name })
		same = same && w.resolved.Ports[i].Port == *p.Port
		ports = append(ports, fabedgev1alpha1.EndpointPort{Name: *p.Name, Protocol: *p.Protocol, Port: *p.Port})
	}
	switch {
	case same:
		return nil
	case len(ports) == 0:
		p := w.resolved.Ports[0] // else there would be no difference
		return []fabedgev1alpha1.EndpointPort{{Protocol: p.Protocol, Port: p.Port}}
	default:
		return ports
	}
}

// globalStatus counts what is in the spec and what found no room. Where all did, which anybody sees in the spec, it is empty: a write
// less for each change.
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
