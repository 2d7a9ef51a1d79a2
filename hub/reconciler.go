package hub

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

	every       time.Duration // how often a member is looked at, at least
	keepLeft    time.Duration // how long the MemberCluster of a cluster that has left is kept
	maxServices int           // how many services a member may have on the hub

	mu       sync.Mutex
	liveness *liveness.Liveness
	allKnown bool                 // whether the Liveness knows all members that the hub had at the start
	copied   map[string]time.Time // when what a member reports was last copied to its MemberCluster
}

// copyEvery is how often, at most, what a member says about itself changes its MemberCluster, which is copied to all members (rule C29 of
// docs/spec/control-plane.md). Phases don't wait.
const copyEvery = time.Minute

// forgottenEvery is how often a forgotten member is looked at: records of it may come back, as from a backup of the hub. It is rare, because an agent
// that returns writes its records before its heartbeat.
const forgottenEvery = time.Minute

// Reconcile implements reconcile.Reconciler. The request names a MemberCluster.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var mc clustersetv1alpha1.MemberCluster
	switch err := r.client.Get(ctx, req.NamespacedName, &mc); {
	case apierrors.IsNotFound(err):
		r.drop(req.Name)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("get MemberCluster %s: %w", req.Name, err)
	}
	if leaves(&mc) {
		r.drop(mc.Name) // not a member's silence
		return r.leave(ctx, &mc)
	}
	decision, err := r.decide(ctx, &mc)
	if err != nil {
		return reconcile.Result{}, err
	}
	exported, err := r.exported(ctx, mc.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.write(ctx, &mc, decision, exported); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.keepLimits(ctx, &mc); err != nil {
		return reconcile.Result{}, err
	}
	if decision.Forget {
		return reconcile.Result{RequeueAfter: forgottenEvery}, r.forget(ctx, &mc, exported)
	}
	return reconcile.Result{RequeueAfter: r.every}, nil
}

// decide decides about a member by its heartbeat. A cache alone can't prove a silence, because it may be behind, so what is worse than before is
// decided by what the API server has.
func (r *reconciler) decide(ctx context.Context, mc *clustersetv1alpha1.MemberCluster) (decision liveness.Decision, err error) {
	for _, from := range []client.Reader{r.client, r.live} {
		lease, err := access.Heartbeat(ctx, from, mc.Name) // a cluster that is only described here has none
		if err != nil {
			return decision, err
		}
		if decision, err = r.observe(ctx, mc, lease); err != nil {
			return decision, err
		}
		if !decision.Forget && (decision.Phase == mc.Status.Phase || decision.Phase == clustersetv1alpha1.MemberReady) {
			break
		}
	}
	return decision, nil
}

// observe passes a member's Lease to the Liveness and returns its decision. It lets it know all members before the first one: whether expiry is
// paused depends on all of them, and a process that has just started would release it if it added them one by one.
func (r *reconciler) observe(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, lease *coordinationv1.Lease) (liveness.Decision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := clustersetv1alpha1.MemberClusterList{Items: []clustersetv1alpha1.MemberCluster{*mc}}
	if !r.allKnown {
		if err := r.client.List(ctx, &all); err != nil {
			return liveness.Decision{}, fmt.Errorf("list MemberClusters: %w", err)
		}
	}
	now := r.now()
	for i := range all.Items {
		if m := &all.Items[i]; !leaves(m) {
			r.liveness.Know(m.Name, m.Status.Phase, heardOf(m, now), now)
		}
	}
	r.allKnown = true
	if lease != nil && lease.Spec.RenewTime != nil { // else its agent hasn't sent a heartbeat yet
		r.liveness.Observe(mc.Name, beatOf(lease), now)
	}
	decision := r.liveness.Decide(now)[mc.Name]
	countMember(mc.Name, decision)
	metricPaused.Set(gauge(r.liveness.Braked()))
	return decision, nil
}

// heardOf returns when an earlier hub process last heard a member, zero if never.
func heardOf(mc *clustersetv1alpha1.MemberCluster, now time.Time) time.Time {
	switch t := mc.Status.LastHeartbeatTime; {
	case t != nil:
		return t.Time
	case mc.Status.Phase != "":
		return now // it was Ready when that process last looked
	}
	return time.Time{}
}

func (r *reconciler) drop(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.liveness.Drop(name)
	r.liveness.Decide(r.now())
	metricPaused.Set(gauge(r.liveness.Braked()))
	delete(r.copied, name)
	dropMetrics(name)
}

// write writes the status if it changes.
func (r *reconciler) write(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, d liveness.Decision, exported int) error {
	var report clustersetv1alpha1.MemberReport // empty if the member says nothing
	key := client.ObjectKey{Namespace: api.MemberNamespace(mc.Name), Name: clustersetv1alpha1.MemberReportName}
	if err := client.IgnoreNotFound(r.client.Get(ctx, key, &report)); err != nil {
		return fmt.Errorf("get MemberReport %s: %w", key, err)
	}
	status := statusOf(mc, d, r.now())
	copied := *status.DeepCopy()
	copyReport(&copied, report.Spec, exported >= r.maxServices)
	copies := r.now().Sub(r.copiedAt(mc.Name)) >= copyEvery && !equality.Semantic.DeepEqual(copied, status)
	if copies {
		status = copied
	}
	wrong := func(kind string) bool { return meta.IsStatusConditionFalse(status.Conditions, kind) }
	metricInvalid.WithLabelValues(mc.Name).Set(gauge(wrong(clustersetv1alpha1.ConditionValid) || wrong(clustersetv1alpha1.ConditionWithinCIDRs)))
	if equality.Semantic.DeepEqual(status, mc.Status) {
		return nil
	}
	status.ExportedServices = new(int32(min(exported, math.MaxInt32)))
	if err := r.writeStatus(ctx, mc, status); err != nil {
		return err
	}
	if copies {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.copied[mc.Name] = r.now()
	}
	return nil
}

// copiedAt returns when what a member reports was last copied, zero if never.
func (r *reconciler) copiedAt(name string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.copied[name]
}

// writeStatus writes a status, and Events about what has changed.
func (r *reconciler) writeStatus(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, status clustersetv1alpha1.MemberClusterStatus) error {
	updated := mc.DeepCopy()
	updated.Status = status
	if err := PatchStatus(ctx, r.client, mc, updated); err != nil {
		return err
	}
	if mc.Status.Phase != status.Phase {
		log.FromContext(ctx).Info("Member changed phase", "member", mc.Name, "from", mc.Status.Phase, "to", status.Phase, "lastHeartbeat", status.LastHeartbeatTime)
	}
	for _, c := range status.Conditions {
		was := meta.FindStatusCondition(mc.Status.Conditions, c.Type)
		if c.Status == metav1.ConditionUnknown || was != nil && was.Status == c.Status && was.Reason == c.Reason {
			continue
		}
		kind := corev1.EventTypeWarning
		if c.Reason == clustersetv1alpha1.ReasonHeartbeatSeen || c.Type == clustersetv1alpha1.ConditionLeft {
			kind = corev1.EventTypeNormal
		}
		r.events.Eventf(updated, nil, kind, c.Reason, "WatchHeartbeat", "%s", c.Message)
	}
	return nil
}
