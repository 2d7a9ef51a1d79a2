package importer

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

const (
	// awayAfter is how long all requests to the hub must fail before it counts as unreachable: three heartbeats.
	awayAfter = 30 * time.Second
	// reachCheck is how often that is checked.
	reachCheck = 5 * time.Second
)

// Reach records since when the hub hasn't answered. It watches the requests that are sent anyway: a heartbeat every few seconds.
type Reach struct {
	Clock clock.PassiveClock

	mu      sync.Mutex
	failing time.Time // since when all requests have failed; zero: the hub answers, or was never asked
}

// NewReach returns a Reach for Options, which also wraps the hub's transport.
func NewReach() *Reach { return &Reach{Clock: clock.RealClock{}} }

// Wrap wraps the transport of the hub's rest.Config.
func (r *Reach) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(request)
		if request.Context().Err() == nil { // a request that we cancelled says nothing about the hub
			r.note(err == nil && response.StatusCode < http.StatusInternalServerError)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (r *Reach) note(answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case answered:
		r.failing = time.Time{}
	case r.failing.IsZero():
		r.failing = r.Clock.Now()
	}
}

// away returns since when the hub hasn't answered, or the zero time if it does.
func (r *Reach) away() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing.IsZero() || r.Clock.Since(r.failing) < awayAfter {
		return time.Time{}
	}
	return r.failing
}

// run records on our copy of this cluster's MemberCluster whether the hub answers, whenever that changes. It writes only
// changes.
func (r *Reach) run(ctx context.Context, l *local, own string) {
	tick := time.NewTicker(reachCheck)
	defer tick.Stop()
	for {
		if err := r.say(ctx, l, own); err != nil && ctx.Err() == nil && !isStale(err) {
			logf.FromContext(ctx).V(1).Info("Can't record whether the hub answers", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (r *Reach) say(ctx context.Context, l *local, own string) error {
	here := &clustersetv1alpha1.MemberCluster{}
	found, err := get(ctx, l, "", own, here)
	if err != nil || !found || !desired.Owned(here) {
		return err
	}
	since := r.away()
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

// keepReach keeps the conditions that run wrote when the rest of the status is copied from the hub.
func keepReach(was []metav1.Condition, now *[]metav1.Condition) {
	if c := meta.FindStatusCondition(was, clustersetv1alpha1.ConditionHubAnswers); c != nil {
		*now = append(*now, *c)
	}
}
