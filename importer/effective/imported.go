package effective

import (
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
)

// Records are those of one service.
type Records struct {
	// Withdrawn has the revisions of the records that say so, by cluster. They aren't in Exports.
	Withdrawn map[string]int64
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

// Confirm reports whether all that a service was imported from has a record, by the labels of its slices: then Effective changes nothing. own is
// this cluster, whose endpoints aren't stored.
func (r Records) Confirm(own string, here []*discoveryv1.EndpointSlice) bool {
	exports, there := make(map[string]bool, len(r.Exports)), make(map[door.ID]bool, len(r.Endpoints))
	for _, e := range r.Exports {
		exports[e.Cluster] = true
	}
	for _, e := range r.Endpoints {
		there[e.ID()] = true
	}
	for _, s := range here {
		if desired.Owned(s) && !exports[s.Labels[api.LabelSourceCluster]] {
			return false
		}
	}
	for _, x := range r.Exports {
		if x.Cluster == own || x.Spec == nil {
			continue
		}
		for _, suffix := range x.Spec.Endpoints {
			if !there[door.ID{Cluster: x.Cluster, Name: x.Name + "." + suffix}] {
				return false
			}
		}
	}
	return true
}

// Absent returns the clusters whose part of a service has no record, sorted.
func Absent(hub, last Records) (clusters []string) {
	for _, e := range last.Exports {
		if hub.Export(e.Cluster) == nil {
			clusters = append(clusters, e.Cluster)
		}
	}
	return clusters
}

func (r Records) clone() Records {
	return Records{Exports: slices.Clip(r.Exports), Endpoints: slices.Clip(r.Endpoints)}
}

// keep adds those of a cluster's records of endpoints in last that are missing and stay.
func (r *Records) keep(last Records, cluster string, stays func(*door.Endpoints) bool) {
	there := map[string]bool{}
	for _, e := range r.Endpoints {
		if e.Cluster == cluster {
			there[e.Name] = true
		}
	}
	for _, e := range last.Endpoints {
		if e.Cluster == cluster && !there[e.Name] && stays(e) {
			r.Endpoints = append(r.Endpoints, e)
		}
	}
}

// lists reports whether an export lists a record of endpoints (C43).
func lists(x *door.Export, e *door.Endpoints) bool {
	suffix, ok := strings.CutPrefix(e.Name, x.Name+".")
	return ok && x.Spec != nil && slices.Contains(x.Spec.Endpoints, suffix)
}

// drop removes a cluster's records of endpoints.
func (r *Records) drop(cluster string) {
	r.Endpoints = slices.DeleteFunc(slices.Clone(r.Endpoints), func(e *door.Endpoints) bool { return e.Cluster == cluster })
}
