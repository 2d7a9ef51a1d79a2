package hub

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

// stuckRetry is how often the deletion of a MemberCluster is retried while something of its cluster is left.
const stuckRetry = time.Hour

// memberCRD is the CustomResourceDefinition of MemberCluster.
const memberCRD = "memberclusters." + clustersetv1alpha1.GroupName

// leave finishes the deletion of a MemberCluster: it deletes the member's rights and records, sets the status to Left, and
// after a while removes the finalizer. `clusterset leave` does the same and more, and may be running.
func (r *reconciler) leave(ctx context.Context, mc *clustersetv1alpha1.MemberCluster) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(mc, api.MemberFinalizer) {
		return reconcile.Result{}, nil // only another finalizer keeps it
	}
	switch going, err := r.kindGoes(ctx); {
	case err != nil:
		return reconcile.Result{}, err
	case going:
		// All MemberClusters are being deleted with their kind. That isn't a leave.
		return reconcile.Result{}, r.letGo(ctx, mc)
	}
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, clustersetv1alpha1.ConditionLeft) {
		// Our cache may be behind a join that has reused the name.
		var now clustersetv1alpha1.MemberCluster
		switch err := r.live.Get(ctx, client.ObjectKeyFromObject(mc), &now); {
		case apierrors.IsNotFound(err) || err == nil && now.UID != mc.UID:
			return reconcile.Result{}, nil
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("get MemberCluster %s: %w", mc.Name, err)
		}
		if err := r.takeAway(ctx, mc.Name); err != nil {
			return reconcile.Result{}, err
		}
		if err := r.writeStatus(ctx, mc, leftStatus(mc, r.now())); err != nil {
			return reconcile.Result{}, err
		}
	}
	if due := mc.DeletionTimestamp.Add(r.keepLeft).Sub(r.now()); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	// Records that exist after their cluster's leave is announced would count as those of a cluster that the hub has lost.
	left, err := r.exported(ctx, mc.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if left > 0 {
		log.FromContext(ctx).Info("Something keeps records of a cluster that has left; clusterset leave removes them", "member", mc.Name, "records", left)
		return reconcile.Result{RequeueAfter: stuckRetry}, r.deleteRecords(ctx, mc.Name)
	}
	return reconcile.Result{}, r.letGo(ctx, mc)
}

// takeAway deletes a member's rights, then its records, so that an agent that is still running can't write them again. It
// leaves the empty namespace, and the binding of the member's account to the readers' role, to `clusterset leave`: their names
// differ between members, so a role for them would let this process delete any namespace and any binding of the hub's cluster.
func (r *reconciler) takeAway(ctx context.Context, cluster string) error {
	if !isMember(cluster) {
		return nil
	}
	mine, account := []client.Object{access.RoleBinding(cluster)}, access.ServiceAccount(cluster)
	switch err := r.live.Get(ctx, client.ObjectKeyFromObject(account), account); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get the account of %s: %w", cluster, err)
	case err == nil && access.Ours(account): // not one that someone else has created since
		mine = append(mine, account)
	}
	for _, o := range mine {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("remove the rights of %s: delete its %T: %w", cluster, o, err)
		}
	}
	if err := r.deleteRecords(ctx, cluster); err != nil {
		return err
	}
	for _, o := range []client.Object{
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}},
		&clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName}},
	} {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("delete the %T of %s: %w", o, cluster, err)
		}
	}
	return nil
}

// kindGoes reports whether the CustomResourceDefinition of MemberCluster is being deleted.
func (r *reconciler) kindGoes(ctx context.Context) (bool, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := r.live.Get(ctx, client.ObjectKey{Name: memberCRD}, crd); err != nil {
		return false, fmt.Errorf("get CustomResourceDefinition %s: %w", memberCRD, err)
	}
	return crd.DeletionTimestamp != nil, nil
}

// letGo removes our finalizer.
func (r *reconciler) letGo(ctx context.Context, mc *clustersetv1alpha1.MemberCluster) error {
	released := mc.DeepCopy()
	controllerutil.RemoveFinalizer(released, api.MemberFinalizer)
	// The list is replaced as a whole, hence the optimistic lock.
	patch := client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})
	if err := client.IgnoreNotFound(r.client.Patch(ctx, released, patch)); err != nil {
		return fmt.Errorf("remove finalizer from MemberCluster %s: %w", mc.Name, err)
	}
	return nil
}

// leftStatus returns the status of a cluster that has left. Agents from before this condition see it as Expired.
func leftStatus(mc *clustersetv1alpha1.MemberCluster, now time.Time) clustersetv1alpha1.MemberClusterStatus {
	status := *mc.Status.DeepCopy()
	status.Phase, status.ExportedServices = clustersetv1alpha1.MemberExpired, new(int32)
	meta.RemoveStatusCondition(&status.Conditions, clustersetv1alpha1.ConditionExpiryPaused)
	for _, c := range []metav1.Condition{
		{Type: clustersetv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "the cluster has left the set"},
		{
			Type: clustersetv1alpha1.ConditionLeft, Status: metav1.ConditionTrue,
			Message: "its rights and records are deleted; clusterset join can use the name again",
		},
	} {
		c.Reason, c.ObservedGeneration, c.LastTransitionTime = clustersetv1alpha1.ReasonDeleted, mc.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}
