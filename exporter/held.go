package exporter

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/policy"
)

// abandoned reports whether a Service exists whose ServiceExport doesn't.
func abandoned(src Source) bool {
	return (src.Export == nil || src.Export.DeletionTimestamp != nil) && src.Service != nil && src.Service.DeletionTimestamp == nil
}

// keep returns the source of a service that stays exported without its ServiceExport, whose content is taken from the record on
// the hub. Its endpoints still follow the Service.
func (r *reconciler) keep(ctx context.Context, src Source, record *clustersetv1alpha1.ExportedService) (Source, error) {
	src.Export = keptExport(record, src.Key)
	var err error
	src.Slices, err = r.slices(ctx, src.Key)
	return src, err
}

// keptExport returns a ServiceExport that leads to the same record.
func keptExport(record *clustersetv1alpha1.ExportedService, key types.NamespacedName) *mcsv1beta1.ServiceExport {
	stated, _ := policy.FromExport(record.Spec.Policy, nil)
	annotations := policy.Annotations(stated)
	if len(record.Spec.ExportTo) > 0 {
		annotations[api.AnnotationExportTo] = strings.Join(record.Spec.ExportTo, ",")
	}
	return &mcsv1beta1.ServiceExport{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, CreationTimestamp: record.Spec.ExportedAt, Annotations: annotations,
		},
		Spec: mcsv1beta1.ServiceExportSpec{ExportedLabels: record.Spec.ExportedLabels, ExportedAnnotations: record.Spec.ExportedAnnotations},
	}
}

// abandonedAll returns the services on the hub that have a Service but no ServiceExport, and how many services are on the hub.
func (r *reconciler) abandonedAll(ctx context.Context) (keys []types.NamespacedName, exported int, err error) {
	var records clustersetv1alpha1.ExportedServiceList
	if err := r.hub.List(ctx, &records, client.InNamespace(api.MemberNamespace(r.cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, fmt.Errorf("list ExportedServices: %w", err)
	}
	for i := range records.Items {
		key := keyOfService(&records.Items[i])
		src := Source{Service: &corev1.Service{}}
		switch err := r.local.Get(ctx, key, src.Service); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, 0, fmt.Errorf("get Service %s: %w", key, err)
		}
		if src.Export, err = r.exports.get(ctx, key); err != nil {
			return nil, 0, err
		}
		if abandoned(src) {
			keys = append(keys, key)
		}
	}
	return keys, len(records.Items), nil
}

// served checks with a dry run whether the member would accept a ServiceExport. It wouldn't if the CustomResourceDefinition is
// gone, or is being deleted together with all objects.
func (e exports) served(ctx context.Context, key types.NamespacedName) error {
	probe := &mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := e.client.Create(ctx, e.version.EncodeExport(probe), client.DryRunAll)
	if apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("ServiceExports aren't served: %w", err)
	}
	return nil // it knows the kind; a policy's refusal is no loss
}
