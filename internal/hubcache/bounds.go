package hubcache

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// maxMetadata is the most bytes of labels, annotations, finalizers and owners of a record that are kept as they are. Those that its exporter
// writes take a tenth of it.
const maxMetadata = 4096

// readLabels and readAnnotations are what is read of a record's metadata.
var (
	readLabels      = []string{api.LabelManagedBy, api.LabelCluster, api.LabelExportedNamespace, api.LabelExportedName}
	readAnnotations = []string{corev1.EndpointsLastChangeTriggerTime}
)

// bound drops what is beyond the bounds of a record, which another cluster wrote. It leaves other objects alone.
func bound(o any) {
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		boundMetadata(o)
		boundService(o)
	case *clustersetv1alpha1.ExportedEndpoints:
		boundMetadata(o)
		boundEndpoints(o)
	}
}

// boundMetadata drops what isn't read if there is too much of it: a CustomResourceDefinition can't bound metadata.
func boundMetadata(o metav1.Object) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	size := sizeOfMap(labels) + sizeOfMap(annotations) + sizeOf(o.GetFinalizers())
	for _, owner := range o.GetOwnerReferences() {
		size += perItem + len(owner.APIVersion) + len(owner.Kind) + len(owner.Name) + len(owner.UID)
	}
	if size <= maxMetadata {
		return
	}
	maps.DeleteFunc(labels, func(key, _ string) bool { return !slices.Contains(readLabels, key) })
	maps.DeleteFunc(annotations, func(key, value string) bool {
		return !slices.Contains(readAnnotations, key) || len(value) > maxMetadata/16
	})
	o.SetFinalizers(nil)
	o.SetOwnerReferences(nil)
}

// boundService empties a record that is larger than the hub's CustomResourceDefinition permits, so that nothing of it is imported. Such a
// record exists only if somebody changed the CustomResourceDefinition. Rule C53 of docs/spec/control-plane.md.
func boundService(e *clustersetv1alpha1.ExportedService) {
	if s := &e.Spec; sizeOfService(s) > api.MaxRecord {
		*s = clustersetv1alpha1.ExportedServiceSpec{ServiceNamespace: nameOf(s.ServiceNamespace), ServiceName: nameOf(s.ServiceName)}
	}
}

func sizeOfService(s *clustersetv1alpha1.ExportedServiceSpec) int {
	size := sizeOf(s.ClusterIPs) + sizeOf(s.IPFamilies) + sizeOf(s.ExportTo) + sizeOfMap(s.ExportedLabels) + sizeOfMap(s.ExportedAnnotations) +
		len(s.ServiceNamespace) + len(s.ServiceName) + len(s.Type) + len(s.SessionAffinity) + lengthOf(s.InternalTrafficPolicy) + lengthOf(s.TrafficDistribution)
	if s.Policy != nil {
		size += len(s.Policy.Prefer) + len(s.Policy.Boundary)
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		size += perItem + len(p.Name) + len(p.Protocol) + lengthOf(p.AppProtocol)
		if p.TargetPort != nil {
			size += len(p.TargetPort.StrVal)
		}
	}
	return size
}

// maxUseless is how many endpoints that can't be imported are kept of a record, so that they are reported and counted.
const maxUseless = 16

// boundEndpoints empties a record that is too large, as boundService does. It also drops endpoints that can't be imported, because they have
// no valid address of the record's family, beyond the first maxUseless.
func boundEndpoints(e *clustersetv1alpha1.ExportedEndpoints) {
	s := &e.Spec
	if sizeOfEndpoints(s) > api.MaxRecord {
		*s = clustersetv1alpha1.ExportedEndpointsSpec{ServiceNamespace: nameOf(s.ServiceNamespace), ServiceName: nameOf(s.ServiceName)}
		return
	}
	useless := 0
	s.Endpoints = slices.DeleteFunc(s.Endpoints, func(p clustersetv1alpha1.Endpoint) bool {
		if isOf(s.AddressType, p) {
			return false
		}
		useless++
		return useless > maxUseless
	})
}

// isOf reports whether an endpoint has an address of a family.
func isOf(family discoveryv1.AddressType, p clustersetv1alpha1.Endpoint) bool {
	return slices.ContainsFunc(p.Addresses, func(s string) bool {
		a, err := api.ParseAddress(s)
		return err == nil && a.Is4() == (family != discoveryv1.AddressTypeIPv6)
	})
}

// isUseless reports whether no endpoint of a record can be imported, though it has some.
func isUseless(s *clustersetv1alpha1.ExportedEndpointsSpec) bool {
	return len(s.Endpoints) > 0 && !slices.ContainsFunc(s.Endpoints, func(p clustersetv1alpha1.Endpoint) bool { return isOf(s.AddressType, p) })
}

func sizeOfEndpoints(s *clustersetv1alpha1.ExportedEndpointsSpec) int {
	size := len(s.ServiceNamespace) + len(s.ServiceName) + len(s.AddressType)
	for i := range s.Endpoints {
		p := &s.Endpoints[i]
		size += perItem + sizeOf(p.Addresses) + lengthOf(p.Hostname) + lengthOf(p.Zone)
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		size += perItem + lengthOf(p.Name) + lengthOf(p.Protocol) + lengthOf(p.AppProtocol)
	}
	return size
}

// uselessFactor is how many times as much a record counts as it takes, if none of its endpoints can be imported. Some are kept, for their
// reports, but they may cost next to nothing (rule C59 of docs/spec/control-plane.md).
const uselessFactor = 32

// sizeOfRecord returns about how many bytes of memory a record takes at most, in a cache of packed objects with their indexes: what counts for its
// cluster's quota (rule C58).
func sizeOfRecord(record metav1.Object) int {
	size := perRecord + sizeOfMap(record.GetLabels()) + sizeOfMap(record.GetAnnotations()) + sizeOf(record.GetFinalizers())
	switch o := record.(type) {
	case *clustersetv1alpha1.ExportedService:
		size += sizeOfService(&o.Spec)
	case *clustersetv1alpha1.ExportedEndpoints:
		size += sizeOfEndpoints(&o.Spec) + perPiece*len(o.Spec.Endpoints)*max(0, min(len(o.Spec.Ports), api.MaxPieces)-1)
		if isUseless(&o.Spec) {
			size *= uselessFactor
		}
	}
	return size
}

// perRecord is about what a record and its entries in indexes take besides what is in it.
const perRecord = 512

// nameOf returns a name if it can be one, so that the record is found, and reported, with its service.
func nameOf(s string) string {
	if api.CheckLabel(s) != nil {
		return ""
	}
	return s
}

// perPiece is about what an endpoint takes in one more EndpointSlice that it is in for the sake of another port (D25).
const perPiece = 32

// perItem is about what an item of a list takes besides its strings, in JSON, and at most what it takes packed.
const perItem = 16

func sizeOf[T ~string](all []T) (size int) {
	for _, s := range all {
		size += perItem + len(s)
	}
	return size
}

func sizeOfMap(m map[string]string) (size int) {
	for key, value := range m {
		size += perItem + len(key) + len(value)
	}
	return size
}

func lengthOf[T ~string](s *T) int {
	if s == nil {
		return 0
	}
	return len(*s)
}
