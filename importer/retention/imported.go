package retention

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
)

// Records are those of one service.
type Records struct {
	Exports   []*door.Export
	Endpoints []*door.Endpoints
}

// Imported returns the records that a service was last imported from, as its EndpointSlices store them. Those of this cluster's own
// endpoints are left out, because its objects have them.
func Imported(service types.NamespacedName, own string, here []*discoveryv1.EndpointSlice) (r Records) {
	exports := map[string]*door.Export{}
	whole := map[string][]*discoveryv1.EndpointSlice{}
	for _, s := range here {
		if !desired.Owned(s) || !desired.FromRecord(s) {
			continue
		}
		name := desired.WholeSlice(s.Name)
		whole[name] = append(whole[name], s)
		cluster := s.Labels[api.LabelSourceCluster]
		if export := desired.StoredService(service, s); export != nil && exports[cluster] == nil && api.CheckClusterName(cluster) == nil {
			exports[cluster] = export
			r.Exports = append(r.Exports, export)
		}
	}
	for _, pieces := range whole {
		cluster := pieces[0].Labels[api.LabelSourceCluster]
		if cluster == own || api.CheckClusterName(cluster) != nil {
			continue
		}
		if e := desired.StoredEndpoints(service, pieces, exports[cluster]); e != nil {
			r.Endpoints = append(r.Endpoints, e)
		}
	}
	slices.SortFunc(r.Exports, func(a, b *door.Export) int { return a.ID().Compare(b.ID()) })
	slices.SortFunc(r.Endpoints, func(a, b *door.Endpoints) int { return a.ID().Compare(b.ID()) })
	return r
}

// Export returns the export of a cluster, or nil.
func (r Records) Export(cluster string) *door.Export {
	for _, e := range r.Exports {
		if e.Cluster == cluster {
			return e
		}
	}
	return nil
}

// EndpointsOf returns the record of endpoints with that name, or nil.
func (r Records) EndpointsOf(cluster, name string) *door.Endpoints {
	i, ok := slices.BinarySearchFunc(r.Endpoints, door.ID{Cluster: cluster, Name: name}, func(e *door.Endpoints, id door.ID) int { return e.ID().Compare(id) })
	if !ok {
		return nil
	}
	return r.Endpoints[i]
}

// missing returns the parts of last that the hub doesn't have. Without its export, a cluster's endpoints aren't looked at.
func missing(service types.NamespacedName, hub, last Records) (parts []Part) {
	exporting, there := map[string]bool{}, map[door.ID]bool{}
	for _, e := range hub.Exports {
		exporting[e.Cluster] = true
	}
	for _, e := range hub.Endpoints {
		there[e.ID()] = true
	}
	for _, e := range last.Exports {
		if !exporting[e.Cluster] {
			parts = append(parts, Part{Service: service, Cluster: e.Cluster})
		}
	}
	for _, e := range last.Endpoints {
		if exporting[e.Cluster] && !there[e.ID()] {
			parts = append(parts, Part{Service: service, Cluster: e.Cluster, Record: e.Name})
		}
	}
	return parts
}

// with adds the kept parts of last to the hub's records.
func (r Records) with(last Records, kept []Part) Records {
	whole, parts := map[string]bool{}, map[Part]bool{}
	for _, p := range kept {
		whole[p.Cluster], parts[p] = whole[p.Cluster] || p.Record == "", true
	}
	there := map[door.ID]bool{}
	for _, e := range r.Endpoints {
		there[e.ID()] = true
	}
	all := Records{slices.Clip(r.Exports), slices.Clip(r.Endpoints)}
	for _, e := range last.Exports {
		if whole[e.Cluster] {
			all.Exports = append(all.Exports, e)
		}
	}
	for _, e := range last.Endpoints {
		if (whole[e.Cluster] || parts[Part{e.Key, e.Cluster, e.Name}]) && !there[e.ID()] {
			all.Endpoints = append(all.Endpoints, e)
		}
	}
	return all
}

// Went returns the parts that are gone: those of this outcome, and those of earlier ones that aren't back. What was imported from the latter
// may still be in a cache.
func (o *Outcome) Went(earlier []Part) []Part {
	went := slices.Clone(o.Gone)
	for _, p := range earlier {
		itself := func(e *door.Endpoints) bool { return e.Cluster == p.Cluster && e.Name == p.Record }
		exported := o.Use.Export(p.Cluster) != nil
		if !slices.Contains(went, p) && (!exported || p.Record != "" && !slices.ContainsFunc(o.Use.Endpoints, itself)) {
			went = append(went, p)
		}
	}
	return went
}

// Removes reports whether the wanted objects of a service lack something that is imported, for another reason than that parts of it are
// gone: what their records say has changed, or has nothing usable any more.
func Removes(in desired.Input, cur desired.Current, out desired.Output, gone []Part) bool {
	owned := cur.ServiceImport != nil && desired.Owned(cur.ServiceImport) || cur.Global != nil && desired.Owned(cur.Global) ||
		cur.Derived != nil && desired.Owned(cur.Derived)
	if out.ServiceImport == nil {
		return (owned || len(cur.Slices)+len(cur.Extending) > 0) && (len(in.Exports) > 0 || len(gone) == 0)
	}
	whole, parts := map[string]bool{}, map[string]bool{} // of what is gone
	for _, p := range gone {
		if whole[p.Cluster] = whole[p.Cluster] || p.Record == ""; p.Record != "" {
			parts[desired.SliceName(p.Cluster, p.Service.Name, p.Record)] = true
		}
	}
	merged := func(cluster string) bool {
		_, found := slices.BinarySearch(out.Resolved.Clusters, cluster)
		return found
	}
	if imp := cur.ServiceImport; imp != nil && desired.Owned(imp) {
		for _, c := range imp.Status.Clusters {
			if !merged(c.Cluster) && !whole[c.Cluster] {
				return true
			}
		}
	}
	if g := cur.Global; g != nil && desired.Owned(g) {
		for i := range g.Spec.Endpoints { // sorted by cluster
			if c := g.Spec.Endpoints[i].Cluster; (i == 0 || c != g.Spec.Endpoints[i-1].Cluster) && !merged(c) && !whole[c] {
				return true
			}
		}
	}
	stale := cur.StaleSlices(out)
	if len(stale) == 0 {
		return false
	}
	wanted := map[string]bool{}
	for _, s := range out.Slices {
		wanted[desired.WholeSlice(s.Name)] = true
	}
	return slices.ContainsFunc(stale, func(s *discoveryv1.EndpointSlice) bool {
		cluster, name := s.Labels[api.LabelSourceCluster], desired.WholeSlice(s.Name)
		switch {
		case wanted[name], whole[cluster], parts[name], in.Own != nil && cluster == in.Cluster: // this cluster's own objects, and not the hub, decide about the last
			return false
		default:
			return len(s.Endpoints) > 0 || !merged(cluster)
		}
	})
}
