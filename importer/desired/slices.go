package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/merge"
)

// endpointSlices returns the EndpointSlices, sorted by name: one for each ExportedEndpoints, so that a change in one
// cluster's slice is a change in one slice here, and with --data-path=clusterips also one for each cluster and family that
// holds its ClusterIP. Where kube-proxy is to use some of one's endpoints and not the others, or differently for different
// ports, it comes in pieces.
//
// Where kube-proxy is to send a VIP's traffic to pods, the slices that DNS and gateways read by the MCS labels carry the
// derived Service's name as well. A second set with the same content would double what etcd stores and every node
// watches. The slices that are not for kube-proxy say so by LabelHeadless: it watches all others, and would log an error
// about each that names no Service.
func (w *work) endpointSlices() []*discoveryv1.EndpointSlice {
	var all, routed []*discoveryv1.EndpointSlice
	var behind []int
	for _, e := range w.endpoints {
		slice := w.slice(e.Cluster, e.Endpoints.Name, e.Endpoints.Spec.AddressType)
		slice.Labels[api.LabelServiceName] = w.in.Key.Name
		slice.Ports = renamed(e.Endpoints.Spec.Ports, w.exposed(e.Cluster))
		slice.Endpoints = w.placed(e.Cluster, e.Endpoints.Spec.Endpoints)
		slice.Annotations = triggerTime(e.Endpoints.Annotations)
		if w.hasVIP() && (w.in.DataPath == DataPathPods || w.in.DataPath == DataPathClusterIPs && w.isOwn(e.Cluster)) {
			routed, behind = append(routed, slice), append(behind, 0)
		} else {
			unroute(slice)
			all = append(all, slice)
		}
	}
	if w.hasVIP() && w.in.DataPath == DataPathClusterIPs {
		ips, counts := w.clusterIPSlices()
		routed, behind = append(routed, ips...), append(behind, counts...)
	}
	all = append(all, w.steered(routed, behind)...)
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// placed fills in the zone of endpoints that don't say theirs, where their cluster lies in one alone: some of those who go by
// hints (kube-proxies of before, Cilium) want to know it. This cluster's get their nodes' names back, by which kube-proxy knows
// local ones (internalTrafficPolicy).
func (w *work) placed(cluster string, endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	if w.isOwn(cluster) {
		for i := range endpoints {
			if node, ok := w.in.Own.Nodes[endpoints[i].Addresses[0]]; ok {
				endpoints[i].NodeName = &node
			}
		}
	}
	if zones := w.member(cluster).Zones; len(zones) == 1 {
		for i := range endpoints { // of a sanitized copy
			if endpoints[i].Zone == nil {
				endpoints[i].Zone = &zones[0]
			}
		}
	}
	return endpoints
}

// unroute keeps a slice from kube-proxy. Without the Service's name alone kube-proxy would keep what it had of the slice: it
// refuses an update that names no Service, unless the other label says that it isn't meant.
func unroute(s *discoveryv1.EndpointSlice) {
	delete(s.Labels, api.LabelKubernetesServiceName)
	s.Labels[corev1.IsHeadlessService] = ""
}

// clusterIPSlices returns slices whose endpoints are the exporting Services' ClusterIPs, and how many endpoints are behind
// each. They carry no MCS service name: that would promise backends to whoever reads slices by it. A cluster that exports a
// Headless Service, and lost, has no ClusterIP and gets no traffic.
func (w *work) clusterIPSlices() (all []*discoveryv1.EndpointSlice, behind []int) {
	for _, e := range w.exports {
		if w.isOwn(e.Cluster) {
			continue // its own ClusterIP behind our ClusterSetIP would be a second translation, which happens once per connection
		}
		ports := w.exposed(e.Cluster)
		for _, ip := range e.Service.Spec.ClusterIPs {
			family := discoveryv1.AddressType(familyOf(ip))
			slice := w.slice(e.Cluster, "clusterip/"+string(family), family)
			ready := !w.without(e.Cluster)
			slice.Endpoints = w.placed(e.Cluster, []discoveryv1.Endpoint{{
				Addresses:  []string{ip},
				Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			}})
			for _, p := range ports {
				slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
					Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port, AppProtocol: p.AppProtocol,
				})
			}
			all, behind = append(all, slice), append(behind, w.readyEndpoints(e.Cluster, family))
		}
	}
	return all, behind
}

// readyEndpoints counts a cluster's, of one family.
func (w *work) readyEndpoints(cluster string, family discoveryv1.AddressType) (n int) {
	for _, e := range w.endpoints {
		if e.Cluster == cluster && e.Endpoints.Spec.AddressType == family {
			for i := range e.Endpoints.Spec.Endpoints {
				if isReady(&e.Endpoints.Spec.Endpoints[i]) {
					n++
				}
			}
		}
	}
	return n
}

// slice returns an empty EndpointSlice whose name follows from where its content comes from.
func (w *work) slice(cluster, origin string, family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	name := SliceName(cluster, w.in.Key.Name, origin)
	if as, ok := w.in.Retained[cluster+"/"+origin]; ok {
		name = as
	}
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: w.objectMeta(name),
		// Never nil: the API server would turn nil into [], and comparing would find a difference each time.
		Endpoints:   []discoveryv1.Endpoint{},
		AddressType: family,
	}
	s.Labels[api.LabelSourceCluster] = cluster
	s.Labels[api.LabelEndpointSliceManagedBy] = api.EndpointSliceManagedBy
	return s
}

// SliceName returns the name of the EndpointSlice that a record, or whatever else origin names, becomes.
func SliceName(cluster, service, origin string) string {
	// The hash has cluster and service too: where a name has dashes, "a-b-c" doesn't say which ends where.
	sum := sha256.Sum256([]byte(cluster + "/" + service + "/" + origin))
	return api.ImportedSlicePrefix + cluster + "-" + service + "-" + hex.EncodeToString(sum[:8])
}

// renamed keeps of an exporter's endpoint ports those of service ports that traffic goes to, under their names here.
func renamed(ports []discoveryv1.EndpointPort, exposed []merge.Port) []discoveryv1.EndpointPort {
	kept := []discoveryv1.EndpointPort{}
	for _, p := range ports {
		i := slices.IndexFunc(exposed, func(e merge.Port) bool {
			return e.ExportedName == *p.Name && e.Protocol == *p.Protocol // Sanitized fills both in
		})
		if i >= 0 {
			p.Name = &exposed[i].Name
			kept = append(kept, p)
		}
	}
	return kept
}

// without says whether the cluster has no ready endpoint, while another one whose ClusterIP can be used has: then this one's
// would lead nowhere, or to a refusal. Where no cluster has any, or none says, there is nothing to choose.
func (w *work) without(cluster string) bool {
	elsewhere := false
	for _, e := range w.endpoints {
		if slices.ContainsFunc(e.Endpoints.Spec.Endpoints, func(ep discoveryv1.Endpoint) bool { return isReady(&ep) }) {
			if e.Cluster == cluster {
				return false
			}
			elsewhere = elsewhere || w.offersClusterIP(e.Cluster)
		}
	}
	return elsewhere
}

// offersClusterIP says whether the cluster has a ClusterIP for the service. A Headless Service that lost has none; and a client
// that asks for svc:80 has nothing of a cluster where that port means something else.
func (w *work) offersClusterIP(cluster string) bool {
	return slices.ContainsFunc(w.exports, func(e merge.Export) bool {
		return e.Cluster == cluster && len(e.Service.Spec.ClusterIPs) > 0
	}) && (len(w.resolved.Ports) == 0 || len(w.exposed(cluster)) > 0)
}
