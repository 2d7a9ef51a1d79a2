package hub

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	if !isMember(cluster) {
		return 0, nil
	}
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

// forgetAgain is when to look again for records of a member that has been silent for very long. Nothing of it changes, so there are no events.
const forgetAgain = time.Minute

// forget deletes the records of a member that has been silent for very long, also those that come back, as from a backup of the hub. If the
// member returns, its exporter writes them again.
func (r *reconciler) forget(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, forget bool, exported int) error {
	r.mu.Lock()
	was := r.forgotten[mc.Name]
	if !forget {
		delete(r.forgotten, mc.Name)
	}
	r.mu.Unlock()
	if !forget || was && exported == 0 {
		return nil
	}
	if err := r.deleteRecords(ctx, mc.Name); err != nil {
		return err
	}
	r.mu.Lock()
	r.forgotten[mc.Name] = true
	r.mu.Unlock()
	if exported > 0 && !was { // otherwise it has been reported, by an earlier process if there are no records
		metricForgotten.Inc()
		r.events.Eventf(mc, nil, corev1.EventTypeWarning, "RecordsForgotten", "WatchHeartbeat",
			"Deleted the %d services the cluster had exported: it has been silent for too long", exported)
	}
	return nil
}

// deleteRecords also deletes records that someone else deleted so that they wait for a garbage collector, which a bare API server doesn't have.
func (r *reconciler) deleteRecords(ctx context.Context, cluster string) error {
	in, now := client.InNamespace(api.MemberNamespace(cluster)), client.PropagationPolicy(metav1.DeletePropagationBackground)
	if err := r.client.DeleteAllOf(ctx, &clustersetv1alpha1.ExportedService{}, in, now); err != nil {
		return fmt.Errorf("delete ExportedServices of %s: %w", cluster, err)
	}
	if err := r.client.DeleteAllOf(ctx, &clustersetv1alpha1.ExportedEndpoints{}, in, now); err != nil {
		return fmt.Errorf("delete ExportedEndpoints of %s: %w", cluster, err)
	}
	return nil
}
