package hub

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

// confineEvery is how often a cluster's exports are compared with spec.cidrs that don't change, and page how many of its records are read at once. None
// is kept: all that clusters export is more than this process should hold.
const confineEvery, page = 2 * time.Minute, 50

// confiner says, in a condition of each MemberCluster, what its spec.cidrs leave out of the cluster's exports (rule C48 of
// docs/spec/control-plane.md). It has one worker of its own, so that reading records delays no phase.
type confiner struct{ *reconciler }

// Reconcile implements reconcile.Reconciler. The request names a MemberCluster.
func (r confiner) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var mc clustersetv1alpha1.MemberCluster
	if err := r.client.Get(ctx, req.NamespacedName, &mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	usable, _ := mc.Sanitized()
	if !isMember(mc.Name) || len(usable.Spec.CIDRs) == 0 || mc.Left() {
		return reconcile.Result{}, Say(ctx, r.client, &mc, metav1.Condition{Type: clustersetv1alpha1.ConditionWithinCIDRs})
	}
	leftOut := merge.Confined{CIDRs: usable.Spec.CIDRs}
	if err := r.eachRecord(ctx, api.MemberNamespace(mc.Name), leftOut.Add); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: confineEvery}, Say(ctx, r.client, &mc, when(leftOut.String() != "", metav1.Condition{
		Type: clustersetv1alpha1.ConditionWithinCIDRs, Status: metav1.ConditionFalse, Reason: clustersetv1alpha1.ReasonOutsideCIDRs,
		Message: leftOut.String(),
	}))
}

// eachRecord reads a member's records page by page.
func (r confiner) eachRecord(ctx context.Context, namespace string, do func(runtime.Object)) error {
	for _, kind := range []client.ObjectList{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}} {
		for more := ""; ; {
			list := kind.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // it is one
			if err := r.live.List(ctx, list, client.InNamespace(namespace), client.Limit(page), client.Continue(more)); err != nil {
				return fmt.Errorf("read the records in %s: %w", namespace, err)
			}
			_ = meta.EachListItem(list, func(record runtime.Object) error { do(record); return nil })
			if more = list.GetContinue(); more == "" {
				break
			}
		}
	}
	return nil
}
