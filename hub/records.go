package hub

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// isMember reports whether a MemberCluster's name can be that of a member of this hub. Others describe clusters of another MCS
// implementation, and have neither a namespace nor a heartbeat here.
func isMember(name string) bool { return api.CheckMemberName(name) == nil }

// exported counts the services a member exports to the hub: its records without those that are withdrawn.
func (r *reconciler) exported(ctx context.Context, cluster string) (int, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind("ExportedServiceList"))
	// Only counted, so the cache's own objects will do.
	if err := r.client.List(ctx, &list, client.InNamespace(api.MemberNamespace(cluster)), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list ExportedServices of %s: %w", cluster, err)
	}
	n := 0
	for i := range list.Items {
		if _, withdrawn := list.Items[i].Labels[api.LabelWithdrawn]; !withdrawn {
			n++
		}
	}
	return n, nil
}

// forget deletes the records of a member that has been silent for very long. Its MemberCluster already says so. If the member returns, its
// exporter writes them again.
func (r *reconciler) forget(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, exported int) error {
	if mc.ForgottenAt().IsZero() { // until now
		metricForgotten.Inc()
	} else if exported == 0 {
		return nil
	}
	return r.deleteRecords(ctx, mc.Name)
}

// deleteRecords also deletes records that someone else deleted so that they wait for a garbage collector, which a bare API server doesn't have.
// ExportedServices go last: as long as there is one, something is left.
func (r *reconciler) deleteRecords(ctx context.Context, cluster string) error {
	in, now := client.InNamespace(api.MemberNamespace(cluster)), client.PropagationPolicy(metav1.DeletePropagationBackground)
	for _, kind := range []client.Object{&clustersetv1alpha1.ExportedEndpoints{}, &clustersetv1alpha1.ExportedService{}} {
		if err := r.client.DeleteAllOf(ctx, kind, in, now); err != nil {
			return fmt.Errorf("delete the records of %s: %w", cluster, err)
		}
	}
	return nil
}
