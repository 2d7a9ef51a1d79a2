package desired

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Owned reports whether the importer wrote the object. The importer never changes or deletes any other object.
func Owned(o metav1.Object) bool { return o.GetLabels()[api.LabelManagedBy] == api.ManagedByImporter }

// Labels returns the labels that mark an object as the importer's.
func Labels() map[string]string {
	return map[string]string{api.LabelManagedBy: api.ManagedByImporter}
}

// ServiceOf returns the service that a record on the hub, or a local object of the importer, belongs to. A derived Service or a slice that no
// service uses as it is belongs to one of its own name, which no cluster exports.
func ServiceOf(o metav1.Object) (types.NamespacedName, bool) {
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		return types.NamespacedName{Namespace: o.Spec.ServiceNamespace, Name: o.Spec.ServiceName}, true
	case *clustersetv1alpha1.ExportedEndpoints:
		return types.NamespacedName{Namespace: o.Spec.ServiceNamespace, Name: o.Spec.ServiceName}, true
	case *discoveryv1.EndpointSlice, *corev1.Service:
		if !Owned(o) {
			return types.NamespacedName{}, false
		}
		name := cmp.Or(o.GetLabels()[api.LabelServiceName], o.GetLabels()[api.LabelExtends], metaOwner(o)) // the last one of a slice of ClusterIPs
		service, derived := o.(*corev1.Service)
		switch {
		case !derived && name == "" && o.GetLabels()[api.LabelEndpointSliceManagedBy] == api.EndpointSliceManagedBy,
			derived && name != "" && service.Name != api.DerivedServiceName(service.Namespace, name):
			name = o.GetName() // restored from a backup, without its owner or in another namespace
		}
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != ""
	default: // ServiceImport, GlobalService. One that someone else owns may block the importer's, or may just have been removed.
		return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}, true
	}
}

// Extends reports whether the importer's slice extends a Service of the cluster's own.
func Extends(s *discoveryv1.EndpointSlice) bool { return s.Labels[api.LabelExtends] != "" }

// metaOwner returns the name of the ServiceImport that owns the object.
func metaOwner(o metav1.Object) string {
	for _, ref := range o.GetOwnerReferences() {
		if ref.Kind == "ServiceImport" {
			return ref.Name
		}
	}
	return ""
}
