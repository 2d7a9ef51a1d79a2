package hub

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
	"github.com/clusterset/clusterset/hub/liveness"
)

// reconciler writes the status of one MemberCluster at a time. All share one Liveness, because whether one member expires
// depends on the others.
type reconciler struct {
	client client.Client // reads from the cache
	live   client.Reader // reads from the API server
	events events.EventRecorder
	now    func() time.Time
	moved  chan event.TypedGenericEvent[string] // members whose decision changed
	// keepLeft is how long the MemberCluster of a cluster that has left is kept.
	keepLeft time.Duration

	maxServices int // how many services a member may have on the hub
	paced       paced

	mu        sync.Mutex
	liveness  *liveness.Liveness
	decisions map[string]liveness.Decision
	quotas    map[string]quotaSeen // by namespace
}

// Reconcile implements reconcile.Reconciler. The request names a MemberCluster.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var mc clustersetv1alpha1.MemberCluster
	switch err := r.client.Get(ctx, req.NamespacedName, &mc); {
	case apierrors.IsNotFound(err):
		r.drop(ctx, req.Name)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get MemberCluster %s: %w", req.Name, err)
	}
	if leaves(&mc) {
		r.drop(ctx, mc.Name) // not a member's silence
		return r.leave(ctx, &mc)
	}
	if err := r.knowAll(ctx); err != nil {
		return reconcile.Result{}, err
	}
	lease, err := r.lease(ctx, r.client, mc.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	decision := r.observe(ctx, &mc, lease)

	if worse(mc.Status.Phase, decision.Phase) || decision.Forget {
		// Our watch may be behind. A cache alone can't prove a silence.
		if lease, err = r.lease(ctx, r.live, mc.Name); err != nil {
			return reconcile.Result{}, err
		}
		decision = r.observe(ctx, &mc, lease)
	}
	exported, err := r.exported(ctx, mc.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	report, err := r.report(ctx, mc.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	f := factsOf(report, exported)
	f.full = exported >= r.maxServices
	f, again := r.paced.pace(&mc, f, r.now())
	if err := r.write(ctx, &mc, decision, f); err != nil {
		return reconcile.Result{}, err
	}
	settled, err := r.keepLimits(ctx, &mc, lease != nil)
	switch {
	case apierrors.IsConflict(err): // the API server or a kube-controller-manager has counted; our cache will have that in a moment
		settled = RetryConflict
	case err != nil:
		return reconcile.Result{}, err
	}
	if again == 0 || settled != 0 && settled < again {
		again = settled
	}
	if !decision.Forget {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if again == 0 || forgetAgain < again {
		again = forgetAgain
	}
	return reconcile.Result{RequeueAfter: again}, r.forget(ctx, &mc, exported)
}

// lease reads a member's heartbeat. It returns nil if there is none: not yet, or because the cluster isn't a member of this hub
// and is only described here.
func (r *reconciler) lease(ctx context.Context, from client.Reader, cluster string) (*coordinationv1.Lease, error) {
	if !isMember(cluster) {
		return nil, nil
	}
	return access.Heartbeat(ctx, from, cluster)
}

// report reads what a member says about itself. It returns nil if it says nothing.
func (r *reconciler) report(ctx context.Context, cluster string) (*clustersetv1alpha1.MemberReport, error) {
	if !isMember(cluster) {
		return nil, nil //nolint:nilnil // that there is none is the answer
	}
	report := &clustersetv1alpha1.MemberReport{}
	key := client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName}
	switch err := r.client.Get(ctx, key, report); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // that there is none is the answer
	case err != nil:
		return nil, fmt.Errorf("get MemberReport %s: %w", key, err)
	}
	return report, nil
}

// knowAll adds every member before anything is decided: whether expiry is paused depends on all of them, and a process that has just started
// would release it if it added them one by one.
func (r *reconciler) knowAll(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decisions != nil {
		return nil
	}
	var all clustersetv1alpha1.MemberClusterList
	if err := r.client.List(ctx, &all); err != nil {
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	now := r.now()
	for i := range all.Items {
		if !leaves(&all.Items[i]) {
			r.know(&all.Items[i], now)
		}
	}
	r.decide(now)
	return nil
}

func (r *reconciler) know(mc *clustersetv1alpha1.MemberCluster, now time.Time) {
	var heard time.Time
	switch t := mc.Status.LastHeartbeatTime; {
	case t != nil:
		heard = t.Time
	case mc.Status.Phase != "":
		heard = now // it was Ready when a hub process last looked
	}
	r.liveness.Know(mc.Name, mc.Status.Phase, heard, now)
}

// observe passes what was read to the Liveness and returns its decision.
func (r *reconciler) observe(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, lease *coordinationv1.Lease) liveness.Decision {
	r.mu.Lock()
	now := r.now()
	r.know(mc, now)
	if lease != nil && lease.Spec.RenewTime != nil { // else its agent hasn't sent a heartbeat yet
		r.liveness.Observe(mc.Name, beatOf(lease), now)
	}
	moved := r.decide(now)
	decision := r.decisions[mc.Name]
	r.mu.Unlock()
	r.enqueue(ctx, moved, mc.Name)
	return decision
}

// tick decides again as time passes.
func (r *reconciler) tick(ctx context.Context) {
	r.mu.Lock()
	if r.decisions == nil { // see knowAll
		r.mu.Unlock()
		return
	}
	moved := r.decide(r.now())
	r.mu.Unlock()
	r.enqueue(ctx, moved, "")
}

// decide returns the members for which more than the time of the last heartbeat has changed. The caller holds the lock.
func (r *reconciler) decide(now time.Time) []string {
	before := r.decisions
	r.decisions = r.liveness.Decide(now)
	var moved []string
	for name, d := range r.decisions {
		was := before[name]
		was.Heard = d.Heard
		if was != d {
			moved = append(moved, name)
		}
	}
	count(before, r.decisions, r.liveness.Braked())
	return moved
}

// enqueue enqueues the members, except the one being reconciled.
func (r *reconciler) enqueue(ctx context.Context, names []string, except string) {
	for _, name := range names {
		if name == except {
			continue
		}
		select {
		case <-ctx.Done(): // the receiver has stopped
			return
		case r.moved <- event.TypedGenericEvent[string]{Object: name}:
		}
	}
}

func (r *reconciler) drop(ctx context.Context, name string) {
	r.mu.Lock()
	r.liveness.Drop(name)
	r.paced.Delete(name)
	delete(r.quotas, api.MemberNamespace(name))
	r.mu.Unlock()
	r.tick(ctx)
}

// write writes the status if it changes, and Events about what changed. It also says in the metrics whether the MemberCluster is used as it is.
func (r *reconciler) write(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, d liveness.Decision, f facts) error {
	status := statusOf(mc, d, f, r.now())
	wrong := func(kind string) bool { return meta.IsStatusConditionFalse(status.Conditions, kind) }
	metricInvalid.WithLabelValues(mc.Name).Set(gauge(wrong(clustersetv1alpha1.ConditionValid) || wrong(clustersetv1alpha1.ConditionWithinCIDRs)))
	return r.writeStatus(ctx, mc, status)
}

func (r *reconciler) writeStatus(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, status clustersetv1alpha1.MemberClusterStatus) error {
	if equality.Semantic.DeepEqual(status, mc.Status) {
		return nil
	}
	updated := mc.DeepCopy()
	updated.Status = status
	if err := PatchStatus(ctx, r.client, mc, updated); err != nil {
		return err
	}
	if mc.Status.Phase != status.Phase {
		metricTransitions.WithLabelValues(string(status.Phase)).Inc()
		log.FromContext(ctx).Info("Member changed phase", "member", mc.Name, "from", mc.Status.Phase, "to", status.Phase, "lastHeartbeat", status.LastHeartbeatTime)
	}
	for _, n := range transitions(mc.Status.Conditions, status.Conditions) {
		r.events.Eventf(updated, nil, n.kind, n.reason, "WatchHeartbeat", "%s", n.message)
	}
	return nil
}
