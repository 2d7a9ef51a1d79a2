package hub

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

const (
	// compareSoon is when a cluster's exports are compared with its spec.cidrs again if their number has changed.
	compareSoon = time.Minute
	// compareSeldom is when they are compared again in any case. What has been left out once is compared only then, because each change of the
	// condition wakes all members, and a member can change what it exports as often as it likes.
	compareSeldom = 10 * time.Minute
	// page is how many records of a cluster are read at once. None is kept: all that clusters export is more than this process should hold.
	page = 50
)

// confiner says, in a condition of each MemberCluster, what its spec.cidrs leave out of the cluster's exports (rule C48 of
// docs/spec/control-plane.md). It has one worker, so that reading records delays no phase, and reads those of clusters that have cidrs only.
type confiner struct {
	*reconciler
	compared map[string]comparison
}

// comparison is when the exports of a cluster were compared, how many there were, and whether some were left out.
type comparison struct {
	at         time.Time
	generation int64 // of its MemberCluster
	exported   int
	left       bool
}

// Reconcile implements reconcile.Reconciler. The request names a MemberCluster.
func (r *confiner) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var mc clustersetv1alpha1.MemberCluster
	if err := r.client.Get(ctx, req.NamespacedName, &mc); err != nil {
		delete(r.compared, req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	want := metav1.Condition{Type: clustersetv1alpha1.ConditionWithinCIDRs}
	usable, _ := mc.Sanitized()
	if mc.Left() || len(usable.Spec.CIDRs) == 0 || !isMember(mc.Name) {
		return r.tell(ctx, &mc, want, 0)
	}
	exported, err := r.exported(ctx, mc.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	was, now := r.compared[mc.Name], r.now()
	if since := now.Sub(was.at); was.generation == mc.Generation && since < compareSeldom && (was.left || was.exported == exported || since < compareSoon) {
		return reconcile.Result{RequeueAfter: compareSoon}, nil
	}
	left, err := r.leftOut(ctx, mc.Name, usable.Spec.CIDRs)
	if err != nil {
		return reconcile.Result{}, err
	}
	if left != "" {
		want.Status, want.Reason, want.Message = metav1.ConditionFalse, clustersetv1alpha1.ReasonOutsideCIDRs, left
	}
	result, err := r.tell(ctx, &mc, want, compareSoon)
	if err == nil && result.RequeueAfter == compareSoon {
		r.compared[mc.Name] = comparison{now, mc.Generation, exported, left != ""}
	}
	return result, err
}

// tell writes the condition, and returns when to look again.
func (r *confiner) tell(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, want metav1.Condition, again time.Duration) (reconcile.Result, error) {
	_, err := Say(ctx, r.client, mc, want)
	if apierrors.IsConflict(err) { // the phase has changed; our cache will have that in a moment
		return reconcile.Result{RequeueAfter: RetryConflict}, nil
	}
	return reconcile.Result{RequeueAfter: again}, client.IgnoreNotFound(err)
}

// leftOut says what the networks leave out of a cluster's exports, as every importer does.
func (r *confiner) leftOut(ctx context.Context, cluster string, cidrs []string) (string, error) {
	confined := merge.Confined{CIDRs: cidrs}
	var services clustersetv1alpha1.ExportedServiceList
	var endpoints clustersetv1alpha1.ExportedEndpointsList
	for _, list := range []client.ObjectList{&services, &endpoints} {
		for more := ""; ; {
			if err := r.live.List(ctx, list, client.InNamespace(api.MemberNamespace(cluster)), client.Limit(page), client.Continue(more)); err != nil {
				return "", fmt.Errorf("read what %s exports (%T): %w", cluster, list, err)
			}
			for i := range services.Items {
				confined.Service(&services.Items[i])
			}
			for i := range endpoints.Items {
				confined.Endpoints(&endpoints.Items[i])
			}
			services.Items, endpoints.Items = nil, nil
			if more = list.GetContinue(); more == "" {
				break
			}
		}
	}
	return confined.String(), nil
}
