package heap

import (
	"slices"
	"unique"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// Compact reduces the memory of an object in a cache; it is the cache's transform (client-go's TransformFunc). It drops the managed fields,
// which nothing reads, and memory that decoding wastes: a decoded list has up to twice the capacity it needs, a list of one address has
// room for four, a zone with ten endpoints is ten strings, and each condition is a bool of its own. Of a record, which another cluster
// wrote, it also drops what is beyond the bounds (records.go). Nothing else changes. Compact objects share memory, so they must not be
// changed in place, like everything in a cache.
func Compact(o any) (any, error) {
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		boundMetadata(o)
		boundService(o)
	case *clustersetv1alpha1.ExportedEndpoints:
		boundMetadata(o)
		boundEndpoints(o)
	}
	if m, err := meta.Accessor(o); err == nil {
		m.SetManagedFields(nil)
		m.SetNamespace(shared(m.GetNamespace()))
		m.SetLabels(sharedLabels(m.GetLabels()))
		m.SetAnnotations(sharedKeys(m.GetAnnotations()))
		m.SetOwnerReferences(owners(m.GetOwnerReferences()))
	}
	switch o := o.(type) {
	case *discoveryv1.EndpointSlice:
		o.Endpoints, o.Ports = slices.Clone(o.Endpoints), slices.Clone(o.Ports)
		var zone *string
		for i := range o.Endpoints {
			e := &o.Endpoints[i]
			zone = compact(&e.Addresses, &e.Conditions, &e.Zone, zone)
		}
	case *clustersetv1alpha1.ExportedEndpoints:
		o.Spec.Endpoints, o.Spec.Ports = slices.Clone(o.Spec.Endpoints), slices.Clone(o.Spec.Ports)
		var zone *string
		for i := range o.Spec.Endpoints {
			e := &o.Spec.Endpoints[i]
			zone = compact(&e.Addresses, &e.Conditions, &e.Zone, zone)
		}
	case *fabedgev1alpha1.GlobalService:
		o.Spec.Endpoints = slices.Clone(o.Spec.Endpoints)
		for i := range o.Spec.Endpoints {
			e := &o.Spec.Endpoints[i]
			e.Addresses = slices.Clone(e.Addresses)
			e.Cluster, e.Zone, e.Region, e.Ready = shared(e.Cluster), shared(e.Zone), shared(e.Region), sharedBool(e.Ready)
		}
	}
	return o, nil
}

// compact does so for the fields of an endpoint. It returns the zone, for the next endpoint.
func compact(addresses *[]string, c *discoveryv1.EndpointConditions, zone **string, before *string) *string {
	*addresses = slices.Clone(*addresses)
	c.Ready, c.Serving, c.Terminating = sharedBool(c.Ready), sharedBool(c.Serving), sharedBool(c.Terminating)
	if *zone != nil && before != nil && **zone == *before {
		*zone = before
	}
	return *zone
}

func owners(all []metav1.OwnerReference) []metav1.OwnerReference {
	for i := range all {
		o := &all[i]
		o.APIVersion, o.Kind = shared(o.APIVersion), shared(o.Kind)
		o.Controller, o.BlockOwnerDeletion = sharedBool(o.Controller), sharedBool(o.BlockOwnerDeletion)
	}
	return all
}

// sharedLabels returns the labels with strings that are shared with other objects. The map stays the object's own, because the importer
// identifies versions of an object by it (desired.Version).
func sharedLabels(labels map[string]string) map[string]string {
	if labels == nil {
		return nil
	}
	own := make(map[string]string, len(labels))
	for key, value := range labels {
		own[shared(key)] = shared(value)
	}
	return own
}

// sharedKeys returns the annotations with keys that are shared with other objects. Values are rarely the same in two objects.
func sharedKeys(annotations map[string]string) map[string]string {
	if annotations == nil {
		return nil
	}
	own := make(map[string]string, len(annotations))
	for key, value := range annotations {
		own[shared(key)] = value
	}
	return own
}

func shared(s string) string { return unique.Make(s).Value() }

var yes, no = true, false

func sharedBool(b *bool) *bool {
	switch {
	case b == nil:
		return nil
	case *b:
		return &yes
	default:
		return &no
	}
}
