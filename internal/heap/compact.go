package heap

import (
	"slices"
	"unique"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// Compact reduces the memory of an object in a cache; it is the cache's transform (client-go's TransformFunc). It drops the managed fields,
// which nothing reads, and memory that decoding wastes: a decoded list has up to twice the capacity it needs, a list of one address has
// room for four, and a zone with ten endpoints is ten strings. Nothing else changes.
func Compact(o any) (any, error) {
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		m.SetLabels(sharedKeys(m.GetLabels()))
	}
	switch o := o.(type) {
	case *discoveryv1.EndpointSlice:
		o.Endpoints, o.Ports = endpoints(o.Endpoints), slices.Clone(o.Ports)
	case *clustersetv1alpha1.ExportedEndpoints:
		o.Spec.Endpoints, o.Spec.Ports = endpoints(o.Spec.Endpoints), slices.Clone(o.Spec.Ports)
	case *fabedgev1alpha1.GlobalService:
		o.Spec.Endpoints = slices.Clone(o.Spec.Endpoints)
		for i := range o.Spec.Endpoints {
			e := &o.Spec.Endpoints[i]
			e.Addresses = slices.Clone(e.Addresses)
			e.Cluster, e.Zone, e.Region = shared(e.Cluster), shared(e.Zone), shared(e.Region)
		}
	}
	return o, nil
}

func endpoints(all []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	all = slices.Clone(all)
	for i := range all {
		e := &all[i]
		e.Addresses = slices.Clone(e.Addresses)
		if i > 0 && e.Zone != nil && all[i-1].Zone != nil && *e.Zone == *all[i-1].Zone {
			e.Zone = all[i-1].Zone
		}
	}
	return all
}

// sharedKeys returns the labels with strings that are shared with other objects.
func sharedKeys(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[shared(key)] = shared(value)
	}
	return out
}

func shared(s string) string { return unique.Make(s).Value() }
