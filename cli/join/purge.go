package join

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// traces are the kinds that our agent writes in a member, and the label that identifies our objects. Owners come first: if an
// agent is interrupted, everything it leaves can be garbage-collected. Namespaces that the importer created aren't included,
// because others may use them by now.
var traces = []struct {
	kind      schema.GroupKind
	managedBy string
}{
	{schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: mcsv1beta1.ServiceExportKindName}, api.ManagedByExporter},
	{schema.GroupKind{Group: mcsv1beta1.GroupName, Kind: mcsv1beta1.ServiceImportKindName}, api.ManagedByImporter},
	{schema.GroupKind{Group: fabedgev1alpha1.GroupName, Kind: "GlobalService"}, api.ManagedByImporter},
	{discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice").GroupKind(), api.ManagedByImporter},
	{corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), api.ManagedByImporter},
	{schema.GroupKind{Group: clustersetv1alpha1.GroupName, Kind: "MemberCluster"}, api.ManagedByImporter},
}

// RemoveTraces deletes everything that our agent wrote in a member that has left: imports, whose names would otherwise be
// answered forever, and the ServiceExports it created for marks. Users' own objects stay. The agent must be stopped first, or
// it rewrites them from what it remembers of the hub.
func RemoveTraces(ctx context.Context, member client.Client) error {
	for _, trace := range traces {
		mapping, err := member.RESTMapper().RESTMapping(trace.kind)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look for %s: %w", trace.kind, err)
		}
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(mapping.GroupVersionKind.GroupVersion().WithKind(trace.kind.Kind + "List"))
		if err := member.List(ctx, &list, client.MatchingLabels{api.LabelManagedBy: trace.managedBy}); err != nil {
			return fmt.Errorf("list %s: %w", trace.kind, err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			object.SetGroupVersionKind(mapping.GroupVersionKind)
			if err := client.IgnoreNotFound(member.Delete(ctx, object)); err != nil {
				return fmt.Errorf("delete %s %s: %w", trace.kind.Kind, client.ObjectKeyFromObject(object), err)
			}
		}
	}
	return nil
}
