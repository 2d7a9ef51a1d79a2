package desired

import (
	"net/netip"
	"slices"

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
