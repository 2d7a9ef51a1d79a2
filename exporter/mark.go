package exporter

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// markedExport returns the ServiceExport that FabDNS's mark on a Service (api.KeyGlobalService) asks for and that doesn't
// exist yet; nil where there is nothing to create.
//
// It is owned by the Service, so that it goes with it. Creating it only where none exists leaves a user's own alone, and
// keeps an existing one's age, by which conflicts are decided.
func markedExport(svc *corev1.Service, export *mcsv1beta1.ServiceExport) *mcsv1beta1.ServiceExport {
	if export != nil || svc == nil || svc.DeletionTimestamp != nil || imported(svc) ||
		!api.IsGlobal(svc.Labels, svc.Annotations) {
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
func unmarkedExport(svc *corev1.Service, export *mcsv1beta1.ServiceExport) bool {
	if export == nil || export.DeletionTimestamp != nil || !ofMark(export) {
		return false
	}
	owner := metav1.GetControllerOf(export)
	// A Service of another UID is one that was deleted and made anew. The garbage collector will take the old export
	// away in its own time; doing it here brings the new one sooner, and there may be no garbage collector.
	return svc == nil || svc.UID != owner.UID || !api.IsGlobal(svc.Labels, svc.Annotations)
}

// ofMark says whether a ServiceExport is one that we created for a mark on its Service.
func ofMark(export *mcsv1beta1.ServiceExport) bool {
	owner := metav1.GetControllerOf(export)
	return export.Labels[api.LabelManagedBy] == api.ManagedByExporter &&
		owner != nil && owner.Kind == "Service" && owner.Name == export.Name
}
