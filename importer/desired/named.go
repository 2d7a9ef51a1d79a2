package desired

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
)

// MayName reports whether the importer may make a Service of that name in a namespace with these labels (D70).
func MayName(namespace, service string, labels map[string]string) bool {
	return !protected(namespace, service) && labels[api.KeyOwnNames] == api.OwnNamesCreate
}

// named returns the Service under the service's own name, or nil if none is to be made.
func (w *work) named() *corev1.Service {
	if !w.in.Names || !w.hasVIP() || !slices.ContainsFunc(w.resolved.Clusters, w.elsewhere) {
		return nil
	}
	svc := w.service(w.in.Key.Name, w.in.Named)
	svc.Labels[api.LabelExtends] = svc.Name
	return svc
}

// behindNamed returns the slices behind that Service: copies of those behind the ClusterSetIP, so that it leads to the same endpoints by the
// same hints.
func (w *work) behindNamed(imported []*discoveryv1.EndpointSlice) (all []*discoveryv1.EndpointSlice) {
	for _, s := range imported {
		if s.Labels[api.LabelKubernetesServiceName] == api.DerivedServiceName(w.in.Key.Namespace, w.in.Key.Name) {
			all = append(all, &discoveryv1.EndpointSlice{
				ObjectMeta:  w.extendingMeta(s.Name, s.Labels[api.LabelSourceCluster]),
				AddressType: s.AddressType, Ports: s.Ports, Endpoints: s.Endpoints,
			})
		}
	}
	return all
}

// Named reports whether the importer made a Service under the service's own name.
func Named(svc *corev1.Service) bool { return Owned(svc) && svc.Labels[api.LabelExtends] == svc.Name }

// Taken reports whether somebody made such a Service his own (D71). The importer itself never applies, so whoever has applied a spec wants that one.
func Taken(svc *corev1.Service) bool {
	_, applied := svc.Annotations[corev1.LastAppliedConfigAnnotation]
	return Named(svc) && (applied || len(svc.Spec.Selector) > 0 || svc.Spec.Type != corev1.ServiceTypeClusterIP ||
		slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(m.FieldsV1.GetRawString(), `"f:spec"`)
		}))
}

// Left returns a taken Service without what the importer wrote on it. The spec is its owner's now.
func Left(svc *corev1.Service) *corev1.Service {
	left := svc.DeepCopy()
	delete(left.Labels, api.LabelManagedBy)
	delete(left.Labels, api.LabelExtends)
	delete(left.Annotations, corev1.AnnotationTopologyMode)
	return left
}
