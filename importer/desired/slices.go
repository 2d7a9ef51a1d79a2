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
func (w *work) endpointSlices(cur Current) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	routed := make([]*record, 0, len(w.records))
	for _, r := range w.records {
		if w.routes(r.cluster) {
			routed = append(routed, r)
		} else if kept := w.kept(r, untold, cur); kept != nil {
			all = append(all, kept...)
		} else {
			slice := w.whole(r)
			unroute(slice)
			all = append(all, w.keep(r, untold, slice)...)
		}
	}
	if w.hasVIP() && w.in.DataPath == DataPathClusterIPs {
		routed = append(routed, w.clusterIPs()...)
	}
	all = append(all, w.steered(routed, cur)...)
	slices.SortFunc(all, func(a, b *discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// routes says whether kube-proxy sends a VIP's traffic to a cluster's endpoints.
func (w *work) routes(c *cluster) bool {
	return w.hasVIP() && (w.in.DataPath == DataPathPods || w.in.DataPath == DataPathClusterIPs && c.own != nil)
}

// whole returns the slice that a record becomes, before it is decided how kube-proxy is to use it.
func (w *work) whole(r *record) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: w.objectMeta(r.slice), AddressType: r.family, Ports: r.ports, Endpoints: w.endpointsOf(r),
	}
	s.Labels[api.LabelSourceCluster] = r.cluster.name
	s.Labels[api.LabelEndpointSliceManagedBy] = api.EndpointSliceManagedBy
	if !r.clusterIP {
		s.Labels[api.LabelServiceName] = w.in.Key.Name
		s.Annotations = triggerTime(r.raw.Annotations)
	}
	if s.Endpoints == nil { // The API server would turn nil into [], and comparing would find a difference each time.
		s.Endpoints = []discoveryv1.Endpoint{}
	}
	return s
}

// untold is what a record's slice is told that isn't for kube-proxy.
const untold = "-"

// kept returns the slices that a record became if they were found here as they should be, and still are, and should be told the same;
// else nil.
func (w *work) kept(r *record, told string, cur Current) []*discoveryv1.EndpointSlice {
	if told == "" || r.told != told {
		return nil
	}
	all := make([]*discoveryv1.EndpointSlice, len(r.pieces))
	for i, p := range r.pieces {
		if all[i] = cur.Slice(p.name); all[i] == nil || !p.found.Same(VersionOf(all[i])) {
			return nil
		}
	}
	return all
}

// keep notes what a record became.
func (w *work) keep(r *record, told string, all ...*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	if r.clusterIP || r.version.labels == nil {
		return all
	}
	r.told, r.pieces = told, make([]piece, len(all))
	for i, s := range all {
		r.pieces[i].name = s.Name
		w.memory.built[s] = &r.pieces[i]
	}
	return all
}

// placed fills in the zone of endpoints that don't say theirs, where their cluster lies in one alone: some of those who go by
// hints (kube-proxies of before, Cilium) want to know it. This cluster's get their nodes' names back, by which kube-proxy knows
// local ones (internalTrafficPolicy).
func (w *work) placed(c *cluster, endpoints []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	if c.own != nil {
		for i := range endpoints {
			if node, ok := c.own.Nodes[endpoints[i].Addresses[0]]; ok {
				endpoints[i].NodeName = &node
			}
		}
	}
	if zones := c.member.Zones; len(zones) == 1 {
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

// clusterIPs returns the exporting Services' ClusterIPs as if they were records of endpoints. Their slices carry no MCS service name:
// that would promise backends to whoever reads slices by it. A cluster that exports a Headless Service, and lost, has no ClusterIP
// and gets no traffic.
func (w *work) clusterIPs() (all []*record) {
	for _, o := range w.offers {
		c := find(w.memory.clusters, o.cluster)
		if c.own != nil {
			continue // its own ClusterIP behind our ClusterSetIP would be a second translation, which happens once per connection
		}
		for _, ip := range o.ips {
			family := discoveryv1.AddressType(familyOf(ip))
			ready := !w.without(c)
			r := &record{
				cluster: c, slice: SliceName(o.cluster, w.in.Key.Name, "clusterip/"+string(family)), family: family, endpoints: 1,
				clusterIP: true, behind: c.ready[family],
				content: w.placed(c, []discoveryv1.Endpoint{{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}),
			}
			for _, p := range c.ports {
				r.ports = append(r.ports, discoveryv1.EndpointPort{
					Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port, AppProtocol: p.AppProtocol,
				})
			}
			r.best = w.tallies(w.targets(r))
			all = append(all, r)
		}
	}
	return all
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
func (w *work) without(c *cluster) bool { return !c.anyReady() && w.anyOffered() }

// anyOffered says whether any cluster with a ready endpoint offers its ClusterIP.
func (w *work) anyOffered() bool {
	if w.offered == nil {
		offered := slices.ContainsFunc(w.memory.clusters, func(c *cluster) bool { return c.anyReady() && w.offersClusterIP(c) })
		w.offered = &offered
	}
	return *w.offered
}

// offersClusterIP says whether the cluster has a ClusterIP for the service. A Headless Service that lost has none; and a client
// that asks for svc:80 has nothing of a cluster where that port means something else.
func (w *work) offersClusterIP(c *cluster) bool {
	return len(w.offer(c.name)) > 0 && (len(w.resolved.Ports) == 0 || len(c.ports) > 0)
}
