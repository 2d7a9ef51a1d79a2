package hub

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

// memberCRD is the CustomResourceDefinition of MemberCluster.
const memberCRD = "memberclusters." + clustersetv1alpha1.GroupName

// leaves reports whether a cluster isn't, or won't be, a member any more.
func leaves(mc *clustersetv1alpha1.MemberCluster) bool {
	return mc.Left() || mc.DeletionTimestamp != nil
}

// leave finishes a leave: it deletes the member's rights and records, makes the MemberCluster say so, and after a while removes the finalizer.
// `clusterset leave` does the same and more, and may be running.
func (r *reconciler) leave(ctx context.Context, mc *clustersetv1alpha1.MemberCluster) (reconcile.Result, error) {
	if mc.DeletionTimestamp != nil {
		// With the CustomResourceDefinition, all MemberClusters are deleted, which isn't a leave.
		crd := &metav1.PartialObjectMetadata{}
		crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		if err := r.live.Get(ctx, client.ObjectKey{Name: memberCRD}, crd); err != nil {
			return reconcile.Result{}, fmt.Errorf("get CustomResourceDefinition %s: %w", memberCRD, err)
		}
		if crd.DeletionTimestamp != nil {
			return reconcile.Result{}, access.Release(ctx, r.client, mc)
		}
	}
	left := mc.DeepCopy()
	left.SetLeft(r.now())
	said := *meta.FindStatusCondition(left.Status.Conditions, clustersetv1alpha1.ConditionLeft)
	status := clustersetv1alpha1.MemberClusterStatus{
		Phase: clustersetv1alpha1.MemberExpired, ExportedServices: new(int32), Conditions: []metav1.Condition{said},
	}
	if !equality.Semantic.DeepEqual(status, mc.Status) {
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
		if err := r.writeStatus(ctx, mc, status); err != nil {
			return reconcile.Result{}, err
		}
	}
	if due := said.LastTransitionTime.Add(r.keepLeft).Sub(r.now()); due > 0 {
		return reconcile.Result{RequeueAfter: due}, nil
	}
	return reconcile.Result{}, access.Release(ctx, r.client, mc)
}

// takeAway deletes a member's rights, then its records, so that an agent that is still running can't write them again. It
// leaves the empty namespace, the Role, and the binding of the member's account to the readers' role, to `clusterset leave`: the names of
// namespaces and bindings differ between members, so a role for them would let this process delete any of the hub's cluster.
func (r *reconciler) takeAway(ctx context.Context, cluster string) error {
	if !isMember(cluster) {
		return nil
	}
	account, in := access.ServiceAccount(cluster), api.MemberNamespace(cluster)
	mine := []client.Object{access.RoleBinding(cluster)}
	switch err := r.live.Get(ctx, client.ObjectKeyFromObject(account), account); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get the account of %s: %w", cluster, err)
	case err == nil && access.Ours(account): // not one that someone else has created since
		mine = append(mine, account)
	}
	if err := r.remove(ctx, mine...); err != nil {
		return err
	}
	if err := r.deleteRecords(ctx, cluster); err != nil {
		return err
	}
	return r.remove(ctx,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: api.HeartbeatLease}},
		&clustersetv1alpha1.MemberReport{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: clustersetv1alpha1.MemberReportName}})
}

func (r *reconciler) remove(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := client.IgnoreNotFound(r.client.Delete(ctx, o)); err != nil {
			return fmt.Errorf("delete %T %s: %w", o, access.NameOf(o), err)
		}
	}
	return nil
}
