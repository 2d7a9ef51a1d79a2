package peers

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub"
	"github.com/clusterset/clusterset/hub/access"
)

// say sets the condition CommunitiesEnforced of all members, or removes it in a set without communities. It writes an Event if somebody
// should look at it.
func (r *reconciler) say(ctx context.Context, s *state, foreign *access.ForeignError) error {
	on := s.on()
	var errs []error
	for _, mc := range s.members {
		want := metav1.Condition{Type: clustersetv1alpha1.ConditionCommunitiesEnforced}
		if on {
			want = s.condition(mc, foreign)
		}
		said, err := hub.Say(ctx, r.client, mc, want)
		errs = append(errs, err)
		if said != nil && err == nil && want.Reason == clustersetv1alpha1.ReasonNotOurs {
			r.events.Eventf(said, nil, corev1.EventTypeWarning, want.Reason, "EnforceCommunities", "%s", want.Message)
		}
	}
	return errors.Join(errs...)
}

// condition returns the condition CommunitiesEnforced of a member of a set with communities. Its message depends only on its reason,
// because all members watch MemberClusters.
func (s *state) condition(mc *clustersetv1alpha1.MemberCluster, foreign *access.ForeignError) metav1.Condition {
	c := metav1.Condition{Type: clustersetv1alpha1.ConditionCommunitiesEnforced, Status: metav1.ConditionFalse}
	switch {
	case foreign.Name != "":
		c.Reason, c.Message = clustersetv1alpha1.ReasonNotOurs, foreign.Error()+", so communities can't be enforced; delete it"
	case s.enforced():
		c.Status, c.Reason = metav1.ConditionTrue, clustersetv1alpha1.ReasonEnforced
		c.Message = "the cluster can read the exports of the clusters that it shares a community with, and of no others"
	default: // for a moment
		return ptr.Deref(meta.FindStatusCondition(mc.Status.Conditions, c.Type), metav1.Condition{Type: c.Type})
	}
	return c
}
