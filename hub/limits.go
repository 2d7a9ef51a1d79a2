package hub

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
	countLeases    = corev1.ResourceName("count/leases." + coordinationv1.GroupName)
)

// counted are the kinds that a member's quota limits.
var counted = map[corev1.ResourceName]schema.GroupVersionKind{
	countServices:  clustersetv1alpha1.GroupVersion.WithKind("ExportedServiceList"),
	countEndpoints: clustersetv1alpha1.GroupVersion.WithKind("ExportedEndpointsList"),
	countLeases:    coordinationv1.SchemeGroupVersion.WithKind("LeaseList"),
}

// keepLimits writes the limits that the hub's API server enforces into a member's namespace: how many records and Leases there may
// be, and, for the chart's admission policy, the networks that the records' addresses must be in. The member can write neither. beats
// is whether its Lease exists. It returns when to look again, 0 for never.
func (r *reconciler) keepLimits(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, beats bool) (time.Duration, error) {
	if !isMember(mc.Name) {
		return 0, nil
	}
	again, err := r.keepQuota(ctx, mc.Name, beats)
	if err != nil {
		return 0, err
	}
	return again, r.keepNetworks(ctx, mc)
}

// keepQuota maintains a ResourceQuota, which the API server enforces when it admits a record, whether or not this process runs.
// A bare API server, which is enough for a hub, has no controller that fills in the quota's status and counts deletions, so
// this process does it if needed.
//
// A kube-controller-manager sets the quota's status.hard at once, but it can't count our kinds in its first minutes, and leaves
// them out of status.used. Until they are in there, the API server rejects every record.
func (r *reconciler) keepQuota(ctx context.Context, cluster string, beats bool) (again time.Duration, err error) {
	key := client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.RecordsQuota}
	hard := corev1.ResourceList{
		countServices:  *resource.NewQuantity(int64(r.maxServices)+MaxWithdrawn, resource.DecimalSI),
		countEndpoints: *resource.NewQuantity(int64(r.maxServices)*endpointsPerService, resource.DecimalSI),
		countLeases:    *resource.NewQuantity(1, resource.DecimalSI),
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.client, quota, func() error { quota.Spec.Hard = hard; return nil }); err != nil {
		return 0, notThere(err, "write ResourceQuota %s", key)
	}

	used, complete := quota.Status.Used.DeepCopy(), equality.Semantic.DeepEqual(quota.Status.Hard, hard)
	settled := r.settled(quota)
	for name, kind := range counted {
		is, known := used[name]
		most := hard[name]
		switch good := complete && known; {
		case good && !refuses(name, is.Value(), most.Value(), beats):
			continue
		case good && !settled:
			again = settles
			continue
		}
		n, err := r.count(ctx, cluster, kind)
		if err != nil {
			return 0, err
		}
		if used == nil {
			used = corev1.ResourceList{}
		}
		used[name] = *resource.NewQuantity(n, resource.DecimalSI)
	}
	if complete && equality.Semantic.DeepEqual(quota.Status.Used, used) {
		return again, nil
	}
	quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	if err := r.client.Status().Update(ctx, quota); err != nil {
		return 0, notThere(err, "update status of ResourceQuota %s", key)
	}
	return again, nil
}

// refuses reports whether a count may be so wrong that the quota refuses what the member may write. The API server adds what it admits
// and subtracts nothing, which matters once half of the records are used up, and for the Lease once it is gone.
func refuses(name corev1.ResourceName, is, most int64, beats bool) bool {
	if name == countLeases {
		return is > 0 && !beats
	}
	return 2*is >= most
}

// settles is how long a quota must stay unchanged before it is corrected. By then every record that it admitted has been stored
// or has failed.
const settles = 5 * time.Second

// settled reports whether a quota has been unchanged for long enough to be corrected. The API server counts a record before it stores it.
// A correction in between would subtract that record again, and admit one too many.
func (r *reconciler) settled(quota *corev1.ResourceQuota) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.quotas[quota.Namespace]
	if seen.version != quota.ResourceVersion {
		seen = quotaSeen{quota.ResourceVersion, r.now()}
		r.quotas[quota.Namespace] = seen
	}
	return r.now().Sub(seen.since) >= settles
}

// quotaSeen is a version of a quota, and since when it is known.
type quotaSeen struct {
	version string
	since   time.Time
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

// keepNetworks copies the networks of a MemberCluster to where a policy finds them with one lookup, however many members there
// are.
func (r *reconciler) keepNetworks(ctx context.Context, mc *clustersetv1alpha1.MemberCluster) error {
	key := client.ObjectKey{Namespace: api.MemberNamespace(mc.Name), Name: api.NetworksConfigMap}
	want := access.NetworksData(&mc.Spec)
	networks := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.client, networks, func() error { networks.Data = want; return nil })
	return notThere(err, "write ConfigMap %s", key)
}

// notThere wraps an error, but ignores one about a missing namespace: it is being created or deleted.
func notThere(err error, format string, key client.ObjectKey) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf(format+": %w", key, err)
}
