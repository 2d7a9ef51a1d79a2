package desired

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/clusterset/clusterset/api"
)

// routed returns the records to whose endpoints kube-proxy sends a VIP's traffic, among them the clusters' ClusterIPs, and the others.
func (w *work) routed() (routed, others []*record) {
	routed = make([]*record, 0, len(w.records))
	for _, r := range w.records {
		if w.routes(r.cluster) {
			routed = append(routed, r)
		} else {
			others = append(others, r)
		}
	}
	if w.hasVIP() && w.in.DataPath == DataPathClusterIPs {
		routed = append(routed, w.clusterIPs()...)
	}
	return routed, others
}

// endpointSlices returns the EndpointSlices, sorted by name: one for each ExportedEndpoints, so that a change in one cluster's slice
// is a change in one slice here, or an empty one for a cluster that has none; and with --data-path=clusterips also one for each cluster and family that holds its ClusterIP. If
// kube-proxy is to use only some of a slice's endpoints, or use them differently for different ports, the slice is split into pieces.
//
// If kube-proxy sends a VIP's traffic to pods, the slices that DNS and gateways find by the MCS labels also have the derived
// Service's name. A second set with the same content would double what etcd stores and every node watches. The slices that are not
// for kube-proxy have LabelHeadless: kube-proxy watches all others.
func (w *work) endpointSlices(routed, others []*record) []*discoveryv1.EndpointSlice {
	all := make([]*discoveryv1.EndpointSlice, 0, len(routed)+len(others))
	for _, r := range others {
		slice := w.whole(r)
		w.unroute(slice)
		all = append(all, slice)
	}
	choices := w.choices(routed)
	for _, r := range routed {
		all = append(all, w.split(r, choices)...)
	}
	all = append(all, w.placeholders()...)
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// routes reports whether kube-proxy sends a VIP's traffic to a cluster's endpoints.
func (w *work) routes(c *cluster) bool {
	return w.hasVIP() && (w.in.DataPath == DataPathPods || w.in.DataPath == DataPathClusterIPs && (c.own != nil || c.apart))
}

// whole returns a record's slice, before it is decided how kube-proxy uses it.
func (w *work) whole(r *record) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: w.objectMeta(r.slice), AddressType: r.family, Ports: r.ports, Endpoints: r.endpoints}
	s.Labels[api.LabelSourceCluster] = r.cluster.name
	s.Labels[api.LabelEndpointSliceManagedBy] = api.EndpointSliceManagedBy
	if !r.clusterIP {
		s.Labels[api.LabelServiceName] = w.in.Key.Name
		s.Annotations = r.stored()
	}
	return s
}

// unroute hides a slice from kube-proxy: the label excludes it from its watch. It doesn't lead to a Service either.
func (w *work) unroute(s *discoveryv1.EndpointSlice) {
	s.Labels[api.LabelKubernetesServiceName] = api.UnusedServiceName(w.in.Key.Namespace, w.in.Key.Name)
	s.Labels[corev1.IsHeadlessService] = ""
}

// clusterIPs returns the exporting Services' ClusterIPs as if they were records of endpoints. Their slices have no MCS service name,
// because readers that find slices by it expect backends. A cluster that exports a Headless Service, and lost the conflict, has no
// ClusterIP and gets no traffic. A ClusterIP whose cluster has no ready endpoint, or none of its family, while another has, isn't ready.
func (w *work) clusterIPs() (all []*record) {
	for _, c := range w.clusters {
		if c.own != nil {
			continue // its own ClusterIP behind the ClusterSetIP would need a second translation, but a connection is translated only once
		}
		for _, ip := range c.ips {
			all = append(all, w.clusterIPRecord(c, ip, !w.without(c) && !w.lacks(c, discoveryv1.AddressType(familyOf(ip)))))
		}
	}
	return all
}

// lacks reports whether the cluster has no ready endpoint of a family while another cluster behind the ClusterSetIP has one.
func (w *work) lacks(c *cluster, family discoveryv1.AddressType) bool {
	return c.ready[family] == 0 && slices.ContainsFunc(w.clusters, func(o *cluster) bool {
		of := func(ip string) bool { return discoveryv1.AddressType(familyOf(ip)) == family }
		return o.ready[family] > 0 && (w.routes(o) || slices.ContainsFunc(o.ips, of))
	})
}

// SliceName returns the name of the EndpointSlice for a record, or for another origin.
func SliceName(cluster, service, origin string) string {
	// The hash has cluster and service too: where a name has dashes, "a-b-c" doesn't say which ends where.
	sum := sha256.Sum256([]byte(cluster + "/" + service + "/" + origin))
	return api.ImportedSlicePrefix + cluster + "-" + service + "-" + hex.EncodeToString(sum[:8])
}

// without reports whether the cluster has no ready endpoint while another cluster has one that its ClusterIP, or external addresses, lead to: then
// traffic to this cluster's ClusterIP would be dropped or rejected. If no cluster has a ready endpoint, or none reports any, there is nothing
// to choose.
func (w *work) without(c *cluster) bool {
	return !c.anyReady() && slices.ContainsFunc(w.clusters, func(c *cluster) bool { return c.anyReady() && (c.apart && w.exposesAny(c) || w.offersClusterIP(c)) })
}

// offersClusterIP reports whether the cluster has a usable ClusterIP for the service. A Headless Service that lost the conflict
// doesn't, and neither does a cluster whose port has another meaning: a client of svc:80 must not reach something else.
func (w *work) offersClusterIP(c *cluster) bool { return len(c.ips) > 0 && w.exposesAny(c) }

// exposesAny reports whether the cluster exposes a port of the service, if it has any.
func (w *work) exposesAny(c *cluster) bool { return len(w.resolved.Ports) == 0 || len(c.ports) > 0 }
