package desired

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/topology"
)

// cluster is what is known of a cluster that exports the service.
type cluster struct {
	name   string
	export *door.Export
	ports  []merge.Port // that it exposes exactly
	ips    []string     // its ClusterIPs that may be used
	member topology.Member
	cidrs  []string
	own    *Own // of this cluster
	// Of a cluster of another network (apart): where its external addresses may be, and where not.
	apart     bool
	external  []string
	forbidden []netip.Prefix

	records []*record
	ready   map[discoveryv1.AddressType]int // ready endpoints
	share   *topology.Share                 // nil: all
	usable  []netip.Addr                    // of ready endpoints, if a share of them is stated; DNS servers find these in the slices
}

// anyReady reports whether the cluster has a ready endpoint.
func (c *cluster) anyReady() bool { return len(c.ready) > 0 }

// beyondCap is why a cluster's export isn't imported although it could be.
var beyondCap = field.Forbidden(field.NewPath("spec"), "the cluster exports more services than are imported of one (--max-services)")

// merge merges the exports that this cluster sees, and returns what is left out of them.
func (w *work) merge() []merge.Drop {
	exports, drops := merge.Exports(w.in.Exports, merge.JoinedBy(w.in.memberCluster))
	visible := merge.Visible(w.in.Cluster, w.in.memberCluster)
	exports = slices.DeleteFunc(exports, func(e merge.Export) bool {
		switch {
		case !visible(e.Cluster, e.Spec.ExportTo):
			return true
		case w.in.Capped[e.Cluster]:
			drops = append(drops, merge.Drop{Cluster: e.Cluster, Kind: "ExportedService", Record: e.Name, Values: api.Left(beyondCap)})
			return true
		}
		return false
	})
	w.resolved = merge.Resolve(exports)
	for _, e := range exports {
		c, left := w.cluster(e.Export)
		if left.Count > 0 {
			drops = append(drops, merge.Drop{Cluster: e.Cluster, Kind: "ExportedService", Record: e.Name, Values: left.First()})
		}
		w.clusters = append(w.clusters, c)
	}
	return drops
}

// cluster returns a cluster that exports the service, and what its networks leave out of the export.
func (w *work) cluster(e *door.Export) (*cluster, api.LeftOut) {
	c := &cluster{
		name: e.Cluster, export: e, ports: w.exposed(e.Cluster), member: w.in.member(e.Cluster), apart: w.in.Apart(e.Cluster), cidrs: w.in.cidrs(e.Cluster),
		ready: map[discoveryv1.AddressType]int{},
	}
	if w.in.Own != nil && c.name == w.in.Cluster {
		c.own = w.in.Own
	}
	if member := w.in.Members[c.name]; member != nil && c.apart {
		c.external, c.forbidden = member.Spec.ExternalCIDRs, w.in.Forbidden
	}
	if c.apart {
		return c, api.LeftOut{}
	}
	if c.ips = e.Spec.ClusterIPs; len(c.cidrs) == 0 {
		return c, api.LeftOut{}
	}
	var left api.LeftOut
	if c.ips, left = merge.ConfineIPs(e, c.cidrs); len(c.ips) == 0 {
		// That none is inside is no mistake: clusters with the same Service range don't declare it (docs/networks.md).
		left = api.LeftOut{}
	}
	return c, left
}

// exposed returns the ports of the merged service that the cluster exposes exactly.
func (w *work) exposed(cluster string) []merge.Port {
	other := func(p merge.Port) bool { return !p.ExposedBy(cluster) }
	if !slices.ContainsFunc(w.resolved.Ports, other) {
		return w.resolved.Ports
	}
	return slices.DeleteFunc(slices.Clone(w.resolved.Ports), other)
}

// clusterNamed returns the cluster of that name, nil if it doesn't export the service.
func (w *work) clusterNamed(name string) *cluster {
	if i, found := slices.BinarySearch(w.resolved.Clusters, name); found {
		return w.clusters[i]
	}
	return nil
}

// record is an ExportedEndpoints of a cluster that exports the service, or one of the cluster's ClusterIPs.
type record struct {
	cluster *cluster
	of      *door.Endpoints // nil: a ClusterIP

	slice     string // the name of the EndpointSlice that it becomes
	family    discoveryv1.AddressType
	ports     []discoveryv1.EndpointPort // the service's, that its endpoints listen on
	endpoints []discoveryv1.Endpoint
	targets   []target // the same endpoints, if kube-proxy may use them
	ready     int
	stores    bool // its slice stores its cluster's export

	// clusterIP is set if this is a cluster's ClusterIP, and external if it has the external addresses of a cluster's Service. Both lead to the
	// ready endpoints behind.
	clusterIP, external bool
	behind              int
}

// target is an endpoint behind a ClusterSetIP.
type target struct {
	topology.Endpoint
	ready bool
	ranks []topology.Rank // in each view
}

// admit adds the importable records of endpoints, ranks them, and returns what was left out.
func (w *work) admit() []merge.Drop {
	drops := merge.Endpoints(w.in.Endpoints, func(e *door.Endpoints) api.LeftOut {
		c := w.clusterNamed(e.Cluster)
		if c == nil { // its ExportedService is gone or hasn't arrived yet
			return api.LeftOut{}
		}
		endpoints, left := c.confined(e)
		r := &record{
			cluster: c, of: e, slice: SliceName(c.name, w.in.Key.Name, e.Name), family: e.AddressType, ports: c.portsOf(e.Ports),
			external: e.External, behind: int(e.Behind), stores: len(c.records) == 0,
		}
		w.fill(r, endpoints)
		w.records, c.records = append(w.records, r), append(c.records, r)
		if n := r.readyPods(); n > 0 {
			c.ready[r.family] += n
		}
		return left
	})
	for cluster, percent := range w.resolved.Policy.Shares {
		c := w.clusterNamed(cluster)
		c.share = topology.NewShare(percent, c.usable)
	}
	for _, r := range w.records {
		w.rank(r)
	}
	return drops
}

// leadsToService reports whether the addresses are those of another cluster's Service, and not of endpoints.
func (r *record) leadsToService() bool { return r.clusterIP || r.external }

// readyPods returns how many ready endpoints are reached.
func (r *record) readyPods() int {
	if r.external && r.ready > 0 {
		return max(1, r.behind)
	}
	return r.ready
}

// confined returns a record's endpoints that may be used, and what is outside the cluster's networks.
func (c *cluster) confined(e *door.Endpoints) (endpoints []door.Endpoint, left api.LeftOut) {
	switch {
	case c.apart:
		endpoints = merge.ConfineEndpoints(e.Endpoints, c.notExternal(&left))
	case len(c.cidrs) > 0:
		endpoints = merge.ConfineEndpoints(e.Endpoints, merge.Outside(field.NewPath("spec", "endpoints"), c.cidrs, merge.CIDRsOf(c.name), &left))
	default:
		endpoints = e.Endpoints
	}
	return endpoints, left
}

// portsOf returns those of an exporter's endpoint ports that belong to the ports that its cluster exposes, with their names here.
func (c *cluster) portsOf(ports []door.Port) []discoveryv1.EndpointPort {
	kept := make([]discoveryv1.EndpointPort, 0, len(ports))
	for i := range ports {
		p := &ports[i]
		for j := range c.ports {
			exposed := &c.ports[j]
			if exposed.ExportedName != p.Name || exposed.Protocol != p.Protocol {
				continue
			}
			port := discoveryv1.EndpointPort{Name: &exposed.Name, Protocol: &p.Protocol, Port: &p.Number}
			if p.AppProtocol != "" {
				port.AppProtocol = &p.AppProtocol
			}
			kept = append(kept, port)
			break
		}
	}
	return kept
}

// fill sets a record's endpoints: as an EndpointSlice has them, and as ranking needs them.
func (w *work) fill(r *record, endpoints []door.Endpoint) {
	r.endpoints = r.cluster.placed(endpoints)
	if w.routes(r.cluster) || r.clusterIP {
		r.targets = make([]target, len(endpoints))
	}
	for i := range endpoints {
		ready := endpoints[i].Ready()
		if ready {
			r.ready++
		}
		if ready && r.cluster.export.Spec.Share != nil {
			r.cluster.usable = append(append(r.cluster.usable, endpoints[i].Addr), endpoints[i].More...)
		}
		if r.targets == nil {
			continue
		}
		t := &r.targets[i]
		t.Addr, t.Cluster, t.Member, t.ready = endpoints[i].Addr, r.cluster.name, &r.cluster.member, ready
		t.ClusterIP, t.Behind = r.leadsToService(), r.behind
		if r.external {
			t.Addr = endpoints[0].Addr // all lead to the same endpoints, which count once
		}
		if zone := r.endpoints[i].Zone; zone != nil {
			t.Zone = *zone
		}
	}
}

// rank sets the ranks of a record's endpoints. It must be known which are spare.
func (w *work) rank(r *record) {
	ranks := make([]topology.Rank, len(r.targets)*len(w.views))
	for i := range r.targets {
		t := &r.targets[i]
		t.Spare = r.cluster.share.Spare(t.Addr, t.ClusterIP)
		t.ranks, ranks = ranks[:len(w.views)], ranks[len(w.views):]
		for j := range w.views {
			t.ranks[j] = w.views[j].Rank(&t.Endpoint)
		}
	}
}

// placed returns endpoints as an EndpointSlice has them. Those without a zone have their cluster's if that has only one: some consumers of hints
// (older kube-proxies, Cilium) need it. This cluster's endpoints get their node names back, by which kube-proxy recognizes local ones
// (internalTrafficPolicy).
func (c *cluster) placed(endpoints []door.Endpoint) []discoveryv1.Endpoint {
	all, addresses := make([]discoveryv1.Endpoint, len(endpoints)), make([]string, 0, len(endpoints))
	var zone *string
	for i := range endpoints {
		e, at := &endpoints[i], len(addresses)
		addresses = append(addresses, e.Addr.String())
		for _, a := range e.More {
			addresses = append(addresses, a.String())
		}
		p := &all[i]
		p.Addresses, p.Conditions = addresses[at:len(addresses):len(addresses)], e.Conditions
		if e.Hostname != "" {
			p.Hostname = &e.Hostname
		}
		if i == 0 || e.Zone != endpoints[i-1].Zone {
			zone = c.zone(e.Zone)
		}
		p.Zone = zone
		if c.own != nil {
			if node, known := c.own.Nodes[e.Addr]; known {
				p.NodeName = &node
			}
		}
	}
	return all
}

// zone returns the zone of an endpoint that says this of itself, nil if it is unknown.
func (c *cluster) zone(zone string) *string {
	switch {
	case zone != "":
		return &zone
	case len(c.member.Zones) == 1:
		return &c.member.Zones[0]
	}
	return nil
}

// clusterIPRecord returns a ClusterIP of a cluster as if it were a record of one endpoint.
func (w *work) clusterIPRecord(c *cluster, ip string, ready bool) *record {
	addr, _ := netip.ParseAddr(ip) // it has been parsed before
	family := discoveryv1.AddressType(familyOf(ip))
	r := &record{
		cluster: c, slice: SliceName(c.name, w.in.Key.Name, "clusterip/"+string(family)), family: family, ports: c.servicePorts(),
		clusterIP: true, behind: c.ready[family],
	}
	w.fill(r, []door.Endpoint{{Addr: addr, Conditions: door.ConditionsOf(discoveryv1.EndpointConditions{Ready: &ready})}})
	w.rank(r)
	return r
}

// servicePorts returns all of a cluster's ports, as its ClusterIP has them.
func (c *cluster) servicePorts() []discoveryv1.EndpointPort {
	all := make([]discoveryv1.EndpointPort, len(c.ports))
	for i := range c.ports {
		p := &c.ports[i]
		all[i] = discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port, AppProtocol: p.AppProtocol}
	}
	return all
}

// portKey identifies a Service's port for kube-proxy, in one family.
type portKey struct {
	family   discoveryv1.AddressType
	name     string
	protocol corev1.Protocol
}

func keyOf(family discoveryv1.AddressType, p *discoveryv1.EndpointPort) portKey {
	return portKey{family, *p.Name, *p.Protocol}
}
