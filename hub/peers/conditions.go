package peers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// say sets the condition CommunitiesEnforced of all members, or removes it in a set without communities.
func (r *reconciler) say(ctx context.Context, s *state, foreign *foreignError) error {
	on := s.on()
	var errs []error
	for cluster, mc := range s.members {
		var want *metav1.Condition
		if on {
			want = s.condition(cluster, foreign)
		}
		errs = append(errs, r.sayOf(ctx, mc, want))
	}
	return errors.Join(errs...)
}

// condition returns the condition CommunitiesEnforced of a member of a set with communities, or nil. Its message depends only on
// its reason, because all members watch MemberClusters.
func (s *state) condition(cluster string, foreign *foreignError) *metav1.Condition {
	c := &metav1.Condition{Type: clustersetv1alpha1.ConditionCommunitiesEnforced, Status: metav1.ConditionFalse}
	switch {
	case foreign.name != "":
		c.Reason, c.Message = clustersetv1alpha1.ReasonNotOurs, foreign.Error()
	case s.enforced():
		c.Status, c.Reason = metav1.ConditionTrue, clustersetv1alpha1.ReasonEnforced
		c.Message = "the cluster can read the exports of the clusters that it shares a community with, and of no others"
	default: // for a moment
		return meta.FindStatusCondition(s.members[cluster].Status.Conditions, c.Type)
	}
	return c
}

// sayOf writes the condition of one MemberCluster if it changed, and an Event if somebody should look at it.
func (r *reconciler) sayOf(ctx context.Context, mc *clustersetv1alpha1.MemberCluster, want *metav1.Condition) error {
	was := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionCommunitiesEnforced)
	switch {
	case want == nil && was == nil:
		return nil
	case was != nil && want != nil && was.Status == want.Status && was.Reason == want.Reason && was.Message == want.Message:
		return nil
	}
	said := mc.DeepCopy()
	if want == nil {
		meta.RemoveStatusCondition(&said.Status.Conditions, was.Type)
	} else {
		want.ObservedGeneration = mc.Generation
		meta.SetStatusCondition(&said.Status.Conditions, *want)
	}
	patch := client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, said, patch, client.FieldOwner(api.FieldManagerHub)); err != nil {
		return fmt.Errorf("patch status of MemberCluster %s: %w", mc.Name, err)
	}
	if want != nil && want.Reason == clustersetv1alpha1.ReasonNotOurs {
		r.events.Eventf(said, nil, corev1.EventTypeWarning, want.Reason, "EnforceCommunities", "%s", want.Message)
	}
	return nil
}
