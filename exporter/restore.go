package exporter

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// restore writes those of our records that the hub had when it was last heard and doesn't have now that it is back: somebody
// restored it from a backup. The watches would tell too, but client-go takes up to a minute to open them again, and importers
// don't wait that long. Services of the backlog are left to their turn, since they have changed.
func (r *reconciler) restore(ctx context.Context, live client.Reader) error {
	skip := map[types.NamespacedName]bool{}
	for _, key := range r.backlog.list() {
		skip[key] = true
	}
	in := client.InNamespace(api.MemberNamespace(r.cluster))
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	if err := r.hub.List(ctx, &endpoints, in); err != nil {
		return fmt.Errorf("list ExportedEndpoints: %w", err)
	}
	if err := r.hub.List(ctx, &services, in); err != nil {
		return fmt.Errorf("list ExportedServices: %w", err)
	}
	there, err := names(ctx, live, kindEndpoints, in)
	if err != nil {
		return err
	}
	var lost []client.Object // endpoints before their services, see plan
	for i := range endpoints.Items {
		if e := &endpoints.Items[i]; !there[e.Name] && !skip[keyOfEndpoints(e)] {
			lost = append(lost, &clustersetv1alpha1.ExportedEndpoints{ObjectMeta: anew(e.ObjectMeta), Spec: e.Spec})
		}
	}
	if there, err = names(ctx, live, kindService, in); err != nil {
		return err
	}
	for i := range services.Items {
		if s := &services.Items[i]; !there[s.Name] && !skip[keyOfService(s)] {
			lost = append(lost, &clustersetv1alpha1.ExportedService{ObjectMeta: anew(s.ObjectMeta), Spec: s.Spec})
		}
	}
	if len(lost) == 0 {
		return nil
	}
	log.FromContext(ctx).Info("The hub has lost records of this cluster, writing them again", "records", len(lost))
	for _, o := range lost {
		err := r.hub.Create(ctx, o, client.FieldOwner(api.FieldManagerExporter))
		if err != nil && !apierrors.IsAlreadyExists(err) && !refused(err) { // a refusal is told when the record's turn comes
			return fmt.Errorf("create %s: %w", client.ObjectKeyFromObject(o), err)
		}
	}
	return nil
}

// names returns the names of our records of a kind that the hub has at this moment.
func names(ctx context.Context, live client.Reader, kind string, in client.ListOption) (map[string]bool, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind + "List"))
	if err := live.List(ctx, &list, in); err != nil {
		return nil, fmt.Errorf("list %s: %w", kind, err)
	}
	names := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		names[list.Items[i].Name] = true
	}
	return names, nil
}

// anew is the metadata to create a record with once more.
func anew(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels}
}
