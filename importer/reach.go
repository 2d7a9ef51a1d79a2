package importer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/hubcache"
)

const (
	// awayAfter is how long all requests to the hub must fail before it counts as unreachable: three heartbeats.
	awayAfter = 30 * time.Second
	// reachCheck is how often that is checked.
	reachCheck = 5 * time.Second
)

// reportReach records on our copy of this cluster's MemberCluster whether the hub answers, whenever that changes, until ctx ends. It writes
// only changes.
func reportReach(ctx context.Context, l *local, own string, state func() hubcache.State) {
	tick := time.NewTicker(reachCheck)
	defer tick.Stop()
	for {
		if err := sayReach(ctx, l, own, awaySince(state(), time.Now())); err != nil && ctx.Err() == nil && !isStale(err) {
			logf.FromContext(ctx).V(1).Info("Can't record whether the hub answers", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// awaySince returns since when the hub hasn't answered, or the zero time if it does, or did a moment ago.
func awaySince(hub hubcache.State, now time.Time) time.Time {
	if hub.Phase != hubcache.Away || now.Sub(hub.Since) < awayAfter {
		return time.Time{}
	}
	return hub.Since
}

func sayReach(ctx context.Context, l *local, own string, since time.Time) error {
	here := &clustersetv1alpha1.MemberCluster{}
	found, err := get(ctx, l, "", own, here)
	if err != nil || !found || !desired.Owned(here) {
		return err
	}
	c := metav1.Condition{
		Type: clustersetv1alpha1.ConditionHubAnswers, Status: metav1.ConditionTrue, Reason: clustersetv1alpha1.ReasonHubAnswers,
		Message: "the hub answers this cluster's agent",
	}
	if !since.IsZero() {
		c.Status, c.Reason = metav1.ConditionFalse, clustersetv1alpha1.ReasonHubAway
		c.Message, c.LastTransitionTime = "the hub doesn't answer; everything stays as it was", metav1.NewTime(since)
	}
	return ensureStatus(ctx, l, here, func(m *clustersetv1alpha1.MemberCluster) {
		c.ObservedGeneration = m.Generation
		meta.SetStatusCondition(&m.Status.Conditions, c)
	})
}

// keepReach keeps the conditions that reportReach wrote when the rest of the status is copied from the hub.
func keepReach(was []metav1.Condition, now *[]metav1.Condition) {
	if c := meta.FindStatusCondition(was, clustersetv1alpha1.ConditionHubAnswers); c != nil {
		*now = append(*now, *c)
	}
}
