package importer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door/store"
)

// An agent that loses its hub reports that once, and reports once when the hub answers again.
func TestReach(t *testing.T) {
	g, own := newRig(Options{}), memberAt("here", "zone-0")
	own.Labels = desired.Labels()
	g.here.put(own)
	began := time.Now().Truncate(time.Second)
	now, state := began, store.State{Since: began.Add(-time.Hour)}
	versions := map[string]bool{}
	var r reach
	says := func(status metav1.ConditionStatus, since time.Time) {
		t.Helper()
		if err := sayOwn(t.Context(), g.local, "here", r.now(state, true, time.Time{}, now)); err != nil {
			t.Fatal(err)
		}
		mc := g.here.get(own).(*clustersetv1alpha1.MemberCluster)
		versions[mc.ResourceVersion] = true
		c := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionHubAnswers)
		if c == nil || c.Status != status || !since.IsZero() && !c.LastTransitionTime.Time.Equal(since) {
			t.Errorf("the condition is %+v, want %s since %s", c, status, since)
		}
	}
	says(metav1.ConditionTrue, time.Time{}) // nothing is known yet
	state.Phase = store.Live
	says(metav1.ConditionTrue, time.Time{})
	state.Phase, state.Since = store.Away, began
	now = began.Add(awayAfter - time.Second)
	says(metav1.ConditionTrue, time.Time{})
	now = began.Add(awayAfter)
	says(metav1.ConditionFalse, began)
	now = began.Add(time.Hour)
	says(metav1.ConditionFalse, began)
	state.Phase, state.Since = store.Live, now
	says(metav1.ConditionTrue, time.Time{})
	if len(versions) != 3 {
		t.Errorf("written %d times for three changes", len(versions))
	}
}

// What the condition says of a hub that doesn't accept the token, although the watches that it opened go on, of one that answers and refuses to be read,
// and of one that is away. One rejection says nothing: an API server that starts may not know the token yet. When the hub is back, the watches get the
// time to be opened. Rule C82 of docs/spec/control-plane.md.
func TestWhyTheHubDoesNotAnswer(t *testing.T) {
	const never = -1
	var r reach
	now, state := time.Unix(1e9, 0), store.State{Phase: store.Live}
	for i, step := range []struct {
		phase   store.Phase
		watched bool
		revoked time.Duration // since when the hub has rejected the token
		lasts   time.Duration
		reason  string
	}{
		{store.Live, true, never, time.Second, clustersetv1alpha1.ReasonHubAnswers},
		{store.Live, true, time.Second, time.Second, clustersetv1alpha1.ReasonHubAnswers},
		{store.Live, true, awayAfter, time.Second, clustersetv1alpha1.ReasonHubRefusesToken},
		{store.Live, true, never, time.Second, clustersetv1alpha1.ReasonHubAnswers},
		{store.Live, false, never, 10 * time.Second, clustersetv1alpha1.ReasonHubAnswers},
		{store.Live, false, never, time.Minute, clustersetv1alpha1.ReasonHubRefuses},
		{store.Away, false, never, time.Hour, clustersetv1alpha1.ReasonHubAway},
		{store.Live, false, never, 25 * time.Second, clustersetv1alpha1.ReasonHubAnswers},
		{store.Live, false, never, time.Minute, clustersetv1alpha1.ReasonHubRefuses},
	} {
		if state.Phase != step.phase {
			state = store.State{Phase: step.phase, Since: now}
		}
		var c metav1.Condition
		for end := now.Add(step.lasts); now.Before(end); now = now.Add(time.Second) {
			var since time.Time
			if step.revoked != never {
				since = now.Add(-step.revoked)
			}
			c = r.now(state, step.watched, since, now)
		}
		if is := c.Status == metav1.ConditionTrue; c.Reason != step.reason || is != (step.reason == clustersetv1alpha1.ReasonHubAnswers) {
			t.Errorf("step %d: the condition is %+v, want %s", i, c, step.reason)
		}
	}
}
