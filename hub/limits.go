package hub

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

const (
	// DefaultMaxServices is the default of how many services a member may have on the hub. Importers take as many from one
	// cluster.
	DefaultMaxServices = 5000
	// MaxWithdrawn is how many records that are withdrawn a member may have besides. Its exporter deletes the oldest beyond that.
	MaxWithdrawn = 1000
	// endpointsPerService is how many ExportedEndpoints a member may have per service.
	endpointsPerService = 10

	countServices  = corev1.ResourceName("count/exportedservices." + clustersetv1alpha1.GroupName)
	countEndpoints = corev1.ResourceName("count/exportedendpoints." + clustersetv1alpha1.GroupName)
)

// counted are the kinds that a member's quota limits.
var counted = map[corev1.ResourceName]schema.GroupVersionKind{
	countServices:  clustersetv1alpha1.GroupVersion.WithKind("ExportedServiceList"),
	countEndpoints: clustersetv1alpha1.GroupVersion.WithKind("ExportedEndpointsList"),
}

// keepLimits writes the limits that the hub's API server enforces into a member's namespace: how many records there may be, and, for the chart's
// admission policy, the networks that the records' addresses must be in. The member can write neither.
func (r *reconciler) keepLimits(ctx context.Context, mc *clustersetv1alpha1.MemberCluster) error {
	if !isMember(mc.Name) {
		return nil
	}
	if err := r.keepQuota(ctx, mc.Name); err != nil {
		return err
	}
	// Copied to where a policy finds them with one lookup, however many members there are.
	networks := access.Networks(mc.Name, &mc.Spec)
	_, err := access.Restored(ctx, r.client, mc.Name, networks)
	return notThere(err, "write ConfigMap %s", client.ObjectKeyFromObject(networks))
}

// keepQuota maintains a ResourceQuota, which the API server enforces when it admits a record, whether or not this process runs.
// A bare API server, which is enough for a hub, has no controller that fills in the quota's status. It adds what it admits and subtracts nothing, so
// this process counts again once half of the records are used up. A record that is being created meanwhile may not be counted, so that a member
// may have as many too many as it creates at once.
//
// A kube-controller-manager sets the quota's status.hard at once, but it can't count our kinds in its first minutes, and leaves
// them out of status.used. Until they are in there, the API server rejects every record.
func (r *reconciler) keepQuota(ctx context.Context, cluster string) error {
	key := client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.RecordsQuota}
	hard := corev1.ResourceList{
		countServices:  *resource.NewQuantity(int64(r.maxServices)+MaxWithdrawn, resource.DecimalSI),
		countEndpoints: *resource.NewQuantity(int64(r.maxServices)*endpointsPerService, resource.DecimalSI),
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.client, quota, func() error { quota.Spec.Hard = hard; return nil }); err != nil {
		return notThere(err, "write ResourceQuota %s", key)
	}
	good, used := equality.Semantic.DeepEqual(quota.Status.Hard, hard), corev1.ResourceList{}
	for name, most := range hard {
		is, known := quota.Status.Used[name]
		good = good && known && 2*is.Value() < most.Value()
	}
	if good {
		return nil
	}
	for name, kind := range counted {
		n, err := r.count(ctx, cluster, kind)
		if err != nil {
			return err
		}
		used[name] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	status := corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	if equality.Semantic.DeepEqual(quota.Status, status) {
		return nil
	}
	quota.Status = status
	return notThere(r.client.Status().Update(ctx, quota), "update status of ResourceQuota %s", key)
}

// count counts a member's objects of a kind on the API server.
func (r *reconciler) count(ctx context.Context, cluster string, kind schema.GroupVersionKind) (int64, error) {
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(kind)
	if err := r.live.List(ctx, &list, client.InNamespace(api.MemberNamespace(cluster)), client.Limit(1)); err != nil {
		return 0, fmt.Errorf("count what %s has on the hub (%s): %w", cluster, kind.Kind, err)
	}
	n := int64(len(list.Items))
	if list.RemainingItemCount != nil {
		n += *list.RemainingItemCount
	}
	return n, nil
}

// notThere wraps an error, but ignores one about a missing namespace: it is being created or deleted.
func notThere(err error, format string, key client.ObjectKey) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf(format+": %w", key, err)
}
