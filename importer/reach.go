package importer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door/store"
)

// awayAfter is how long the hub must fail this cluster before that is reported: three heartbeats.
const awayAfter = 30 * time.Second

// reportReach records, until ctx ends, whether the hub is watched, as a metric, and on our copy of this cluster's MemberCluster whether it answers, and
// how ClusterSetIPs are steered. It writes only changes.
func reportReach(ctx context.Context, l *local, o Options, hub *store.Store, steered metav1.Condition) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer hubSyncedGauge.Set(0)
	var r reach
	for {
		watched := hub.Watched()
		hubSyncedGauge.Set(map[bool]float64{true: 1}[watched])
		answers := r.now(hub.State(), watched, o.HubRefuses(), time.Now())
		if err := sayOwn(ctx, l, o.Cluster, answers, steered); err != nil && ctx.Err() == nil && !isStale(err) {
			logf.FromContext(ctx).V(1).Info("Can't record whether the hub answers", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reach tells a hub that serves this cluster from one that is away, and from one that answers, if only to refuse.
type reach struct {
	unwatched time.Time // since when the hub isn't watched, zero if it is
}

// now returns the condition HubAnswers. revoked is since when the hub has rejected this cluster's token, zero if it accepts it.
func (r *reach) now(hub store.State, watched bool, revoked, now time.Time) metav1.Condition {
	if watched {
		r.unwatched = time.Time{}
	} else if r.unwatched.IsZero() {
		r.unwatched = now
	}
	refused := r.unwatched
	if hub.Since.After(refused) { // it is back, and the watches need a moment
		refused = hub.Since
	}
	switch {
	case hub.Phase == store.Away && now.Sub(hub.Since) >= awayAfter:
		return hubAnswers(metav1.ConditionFalse, clustersetv1alpha1.ReasonHubAway, "the hub doesn't answer; everything stays as it was", hub.Since)
	case !revoked.IsZero() && now.Sub(revoked) >= awayAfter:
		return hubAnswers(metav1.ConditionFalse, clustersetv1alpha1.ReasonHubRefusesToken, "the hub doesn't accept this cluster's token; everything stays as it was", revoked)
	case hub.Phase == store.Live && !watched && now.Sub(refused) >= awayAfter:
		return hubAnswers(metav1.ConditionFalse, clustersetv1alpha1.ReasonHubRefuses,
			"the hub answers, but its records can't be read: it refuses this cluster's requests, or is too slow; everything stays as it was", refused)
	}
	return hubAnswers(metav1.ConditionTrue, clustersetv1alpha1.ReasonHubAnswers, "the hub answers this cluster's agent", time.Time{})
}

func hubAnswers(is metav1.ConditionStatus, reason, message string, since time.Time) metav1.Condition {
	return metav1.Condition{
		Type: clustersetv1alpha1.ConditionHubAnswers, Status: is, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(since),
	}
}

// ownConditions are those of our copy of this cluster's MemberCluster that aren't the hub's.
var ownConditions = []string{clustersetv1alpha1.ConditionHubAnswers, clustersetv1alpha1.ConditionSteered}

func sayOwn(ctx context.Context, l *local, own string, conditions ...metav1.Condition) error {
	here := copies{l.cache}.Member(own)
	if here == nil || !desired.Owned(here) {
		return nil
	}
	return ensureStatus(ctx, l, here, func(m *clustersetv1alpha1.MemberCluster) {
		for _, c := range conditions {
			meta.SetStatusCondition(&m.Status.Conditions, c) // whatever its spec is: no observedGeneration
		}
	})
}
