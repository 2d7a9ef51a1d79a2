package effective

import (
	"cmp"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Records are those of one service.
type Records struct {
	// Withdrawn has the revisions of the records that say so, by cluster. They aren't in Services.
	Withdrawn map[string]int64
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

// Absent returns the clusters whose part of a service has no record, sorted.
func Absent(hub, last Records) (clusters []string) {
	for _, s := range last.Services {
		if cluster, ok := s.SourceCluster(); ok && hub.Service(cluster) == nil {
			clusters = append(clusters, cluster)
		}
	}
	return clusters
}

func (r Records) clone() Records {
	return Records{Services: slices.Clip(r.Services), Endpoints: slices.Clip(r.Endpoints)}
}

// keep adds those of a cluster's records of endpoints in last that are missing and stay. It reports whether there is none.
func (r *Records) keep(last Records, cluster string, stays func(*clustersetv1alpha1.ExportedEndpoints) bool) (none bool) {
	there := map[string]bool{}
	for _, e := range r.Endpoints {
		if e.Namespace == api.MemberNamespace(cluster) {
			there[e.Name] = true
		}
	}
	none = true
	for _, e := range last.Endpoints {
		if e.Namespace == api.MemberNamespace(cluster) && !there[e.Name] && stays(e) {
			r.Endpoints, none = append(r.Endpoints, e), false
		}
	}
	return none
}

// lists reports whether an export lists a record of endpoints (C43).
func lists(s *clustersetv1alpha1.ExportedService, e *clustersetv1alpha1.ExportedEndpoints) bool {
	suffix, ok := strings.CutPrefix(e.Name, s.Name+".")
	return ok && slices.Contains(s.Spec.Endpoints, suffix)
}

// drop removes a cluster's records of endpoints.
func (r *Records) drop(cluster string) {
	r.Endpoints = slices.DeleteFunc(slices.Clone(r.Endpoints), func(e *clustersetv1alpha1.ExportedEndpoints) bool {
		return e.Namespace == api.MemberNamespace(cluster)
	})
}
