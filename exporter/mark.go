package exporter

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// marked says whether a Service is to be exported by FabDNS's mark (api.KeyGlobalService): its own, or that of its namespace
// unless it says otherwise. A namespace's mark leaves out what can't be exported, and the Service by which pods find their own
// cluster's API server: nobody has asked for these by name.
func marked(svc *corev1.Service, byNamespace bool) bool {
	if !byNamespace || api.IsGlobal(svc.Labels, svc.Annotations) || api.KeepsLocal(svc.Labels, svc.Annotations) {
		return api.IsGlobal(svc.Labels, svc.Annotations)
	}
	return svc.Spec.Type != corev1.ServiceTypeExternalName &&
		(svc.Namespace != metav1.NamespaceDefault || svc.Name != "kubernetes")
}

// markedExport returns the ServiceExport that a mark asks for and that doesn't exist yet; nil where there is nothing to create.
//
// It is owned by the Service, so that it goes with it. Creating it only where none exists leaves a user's own alone, and
// keeps an existing one's age, by which conflicts are decided.
func markedExport(svc *corev1.Service, byNamespace bool, export *mcsv1beta1.ServiceExport) *mcsv1beta1.ServiceExport {
	if export != nil || svc == nil || svc.DeletionTimestamp != nil || imported(svc) || !marked(svc, byNamespace) {
		return nil
	}
	return &mcsv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       svc.Namespace,
			Name:            svc.Name,
			Labels:          map[string]string{api.LabelManagedBy: api.ManagedByExporter},
			OwnerReferences: []metav1.OwnerReference{ownedBy(svc)},
		},
	}
}

// ownedBy has the garbage collector remove an object with the Service. The Service's own deletion doesn't wait for it: to say
// that it should takes the right to update the Service's finalizers, where OwnerReferencesPermissionEnforcement is on, as in
// OpenShift, and nothing would be gained.
func ownedBy(svc *corev1.Service) metav1.OwnerReference {
	ref := *metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))
	ref.BlockOwnerDeletion = nil
	return ref
}

// unmarkedExport says whether a ServiceExport is one that we created for a mark which is there no more. A ServiceExport
// without our label is its user's, whatever the Service says.
func unmarkedExport(svc *corev1.Service, byNamespace bool, export *mcsv1beta1.ServiceExport) bool {
	if export == nil || export.DeletionTimestamp != nil || !ofMark(export) {
		return false
	}
	owner := metav1.GetControllerOf(export)
	// A Service of another UID is one that was deleted and made anew. The garbage collector will take the old export
	// away in its own time; doing it here brings the new one sooner, and there may be no garbage collector.
	return svc == nil || svc.UID != owner.UID || !marked(svc, byNamespace)
}

// ofMark says whether a ServiceExport is one that we created for a mark, on its Service or their namespace.
func ofMark(export *mcsv1beta1.ServiceExport) bool {
	owner := metav1.GetControllerOf(export)
	return export.Labels[api.LabelManagedBy] == api.ManagedByExporter &&
		owner != nil && owner.Kind == "Service" && owner.Name == export.Name
}
