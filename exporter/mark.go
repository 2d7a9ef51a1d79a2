package exporter

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
)

// marked reports whether FabDNS's mark (api.KeyGlobalService) exports a Service: its own mark, or its namespace's unless its
// own says otherwise. A namespace's mark leaves out Services that can't be exported, and the Service of the cluster's own API
// server: no user asked for these by name.
func marked(svc *corev1.Service, byNamespace bool) bool {
	if !byNamespace || api.IsGlobal(svc.Labels, svc.Annotations) || api.KeepsLocal(svc.Labels, svc.Annotations) {
		return api.IsGlobal(svc.Labels, svc.Annotations)
	}
	return svc.Spec.Type != corev1.ServiceTypeExternalName &&
		(svc.Namespace != metav1.NamespaceDefault || svc.Name != "kubernetes")
}

// markedExport returns the ServiceExport that a mark asks for and that doesn't exist yet, or nil if there is nothing to create.
//
// The Service owns it, so that the garbage collector deletes it with the Service. It doesn't block the Service's own deletion: that would need the
// right to update the Service's finalizers if OwnerReferencesPermissionEnforcement is on, as in OpenShift, and gain nothing. It is only created if
// none exists, which leaves a user's own alone, and keeps the age of an existing one, by which conflicts are decided.
func markedExport(svc *corev1.Service, byNamespace bool, export *mcsv1beta1.ServiceExport) *mcsv1beta1.ServiceExport {
	if export != nil || svc == nil || svc.DeletionTimestamp != nil || imported(svc) || !marked(svc, byNamespace) {
		return nil
	}
	owner := metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))
	owner.BlockOwnerDeletion = nil
	return &mcsv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       svc.Namespace,
			Name:            svc.Name,
			Labels:          map[string]string{api.LabelManagedBy: api.ManagedByExporter},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
	}
}

// unmarkedExport reports whether we created a ServiceExport for a mark that no longer exists. A ServiceExport without our label
// belongs to its user, whatever the Service says.
func unmarkedExport(svc *corev1.Service, byNamespace bool, export *mcsv1beta1.ServiceExport) bool {
	if export == nil || export.DeletionTimestamp != nil || !ofMark(export) {
		return false
	}
	owner := metav1.GetControllerOf(export)
	// A Service with another UID was deleted and recreated. The garbage collector will delete the old export eventually;
	// deleting it here brings the new one sooner, and there may be no garbage collector.
	return svc == nil || svc.UID != owner.UID || !marked(svc, byNamespace)
}

// ofMark reports whether we created a ServiceExport for a mark on its Service or their namespace.
func ofMark(export *mcsv1beta1.ServiceExport) bool {
	owner := metav1.GetControllerOf(export)
	return export.Labels[api.LabelManagedBy] == api.ManagedByExporter &&
		owner != nil && owner.Kind == "Service" && owner.Name == export.Name
}
