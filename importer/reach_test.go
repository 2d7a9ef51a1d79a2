package importer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/connect"
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
		if err := sayReach(t.Context(), g.local, "here", r.now(state, true, time.Time{}, now)); err != nil {
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

// A token that the hub has rejected for a while is named, although the watches that it opened go on. One rejection says nothing: an API server that starts
// may not know it yet (C82 of docs/spec/control-plane.md).
func TestARefusedTokenIsNamed(t *testing.T) {
	var r reach
	for _, step := range []struct {
		after  time.Duration // since the first rejection; negative: there is none
		reason string
	}{
		{-1, clustersetv1alpha1.ReasonHubAnswers}, {time.Second, clustersetv1alpha1.ReasonHubAnswers},
		{awayAfter, clustersetv1alpha1.ReasonHubRefusesToken}, {-1, clustersetv1alpha1.ReasonHubAnswers},
	} {
		now := time.Now()
		var since time.Time
		if step.after >= 0 {
			since = now.Add(-step.after)
		}
		if c := r.now(store.State{Phase: store.Live}, true, since, now); c.Reason != step.reason {
			t.Errorf("after %s: %+v, want %s", step.after, c, step.reason)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A hub that refuses to be read is reported like one that is away, though it answers: a revoked token, or lost rights. When it is back after
// an outage, the watches get the time to be opened.
func TestARevokedTokenIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		hub, err := connect.NewHub(&rest.Config{Host: "http://hub", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if away.Load() {
				return nil, errors.New("no route to host")
			}
			const body = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}`
			header := http.Header{"Content-Type": {"application/json"}}
			return &http.Response{StatusCode: http.StatusUnauthorized, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})}, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = hub.Store.Start(ctx) })
		defer running.Wait()
		defer cancel()

		var r reach
		for _, step := range []struct {
			after  time.Duration
			away   bool
			reason string
		}{
			{time.Second, false, clustersetv1alpha1.ReasonHubAnswers},
			{10 * time.Second, false, clustersetv1alpha1.ReasonHubAnswers},
			{time.Minute, false, clustersetv1alpha1.ReasonHubRefuses},
			{time.Hour, true, clustersetv1alpha1.ReasonHubAway},
			{25 * time.Second, false, clustersetv1alpha1.ReasonHubAnswers},
			{time.Minute, false, clustersetv1alpha1.ReasonHubRefuses},
		} {
			away.Store(step.away)
			var c metav1.Condition
			for until := time.Now().Add(step.after); time.Now().Before(until); <-time.After(min(time.Second, time.Until(until))) {
				synctest.Wait()
				c = r.now(hub.Store.State(), hub.Store.Watched(), time.Time{}, time.Now())
			}
			if is := c.Status == metav1.ConditionTrue; c.Reason != step.reason || is != (step.reason == clustersetv1alpha1.ReasonHubAnswers) {
				t.Errorf("after %s: the condition is %+v, want %s", step.after, c, step.reason)
			}
		}
	})
}
