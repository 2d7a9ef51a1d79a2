package retention

import (
	"cmp"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Records are those of one service.
type Records struct {
	Services  []*clustersetv1alpha1.ExportedService
	Endpoints []*clustersetv1alpha1.ExportedEndpoints
}

// Imported returns the records that a service was last imported from, as its EndpointSlices store them. Those of this cluster's own
// endpoints are left out, because its objects have them.
func Imported(service types.NamespacedName, own string, here []*discoveryv1.EndpointSlice) (r Records) {
	exports := map[string]*clustersetv1alpha1.ExportedService{}
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
			r.Services = append(r.Services, export)
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
	slices.SortFunc(r.Services, func(a, b *clustersetv1alpha1.ExportedService) int { return cmp.Compare(a.Namespace, b.Namespace) })
	slices.SortFunc(r.Endpoints, func(a, b *clustersetv1alpha1.ExportedEndpoints) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// Service returns the export of a cluster, or nil.
func (r Records) Service(cluster string) *clustersetv1alpha1.ExportedService {
	for _, s := range r.Services {
		if s.Namespace == api.MemberNamespace(cluster) {
			return s
		}
	}
	return nil
}

// EndpointsOf returns the record of endpoints with that name, or nil.
func (r Records) EndpointsOf(cluster, name string) *clustersetv1alpha1.ExportedEndpoints {
	i, ok := slices.BinarySearchFunc(r.Endpoints, name, func(e *clustersetv1alpha1.ExportedEndpoints, name string) int {
		return cmp.Or(cmp.Compare(e.Namespace, api.MemberNamespace(cluster)), cmp.Compare(e.Name, name))
	})
	if !ok {
		return nil
	}
	return r.Endpoints[i]
}

// missing returns the parts of last that the hub doesn't have. Without its export, a cluster's endpoints aren't looked at.
func missing(service types.NamespacedName, hub, last Records) (parts []Part) {
	exporting, there := map[string]bool{}, map[types.NamespacedName]bool{}
	for _, s := range hub.Services {
		exporting[s.Namespace] = true
	}
	for _, e := range hub.Endpoints {
		there[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}] = true
	}
	for _, s := range last.Services {
		if cluster, ok := s.SourceCluster(); ok && !exporting[s.Namespace] {
			parts = append(parts, Part{Service: service, Cluster: cluster})
		}
	}
	for _, e := range last.Endpoints {
		cluster, ok := e.SourceCluster()
		if ok && exporting[e.Namespace] && !there[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}] {
			parts = append(parts, Part{Service: service, Cluster: cluster, Record: e.Name})
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
	there := map[string]bool{}
	for _, e := range r.Endpoints {
		there[e.Namespace+"/"+e.Name] = true
	}
	all := Records{slices.Clip(r.Services), slices.Clip(r.Endpoints)}
	for _, s := range last.Services {
		if cluster, _ := s.SourceCluster(); whole[cluster] {
			all.Services = append(all.Services, s)
		}
	}
	for _, e := range last.Endpoints {
		cluster, _ := e.SourceCluster()
		service := types.NamespacedName{Namespace: e.Spec.ServiceNamespace, Name: e.Spec.ServiceName}
		if (whole[cluster] || parts[Part{service, cluster, e.Name}]) && !there[e.Namespace+"/"+e.Name] {
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
		itself := func(e *clustersetv1alpha1.ExportedEndpoints) bool {
			return e.Namespace == api.MemberNamespace(p.Cluster) && e.Name == p.Record
		}
		exported := o.Use.Service(p.Cluster) != nil
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
		return (owned || len(cur.Slices)+len(cur.Extending) > 0) && (len(in.Services) > 0 || len(gone) == 0)
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
