package store

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Phase is whether the hub answers.
type Phase int

// Phases. A refusal is an answer.
const (
	Unknown Phase = iota // it was never asked, or hasn't answered or failed yet
	Live                 // it answered the last request
	Away                 // it didn't answer the last request
)

// State is what is known of the hub.
type State struct {
	Phase Phase
	Since time.Time // by this process's clock
}

// saysEvery is the shortest time between two lines in the log about a hub that doesn't answer, or refuses.
const saysEvery = time.Minute

// observe notes the result of a request.
func (s *Store) observe(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	phase := Away
	if answered(err) {
		phase = Live
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !apierrors.IsResourceExpired(err) && time.Since(s.said) >= saysEvery {
		s.said = time.Now()
		log.FromContext(ctx).Info("Can't read the hub, asking again", "reason", err.Error())
	}
	if s.state.Phase == phase {
		return
	}
	if s.state.Phase == Away {
		select {
		case s.back <- struct{}{}:
		default:
		}
	}
	s.state = State{phase, time.Now()}
}

// State returns whether the hub answers.
func (s *Store) State() State {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state
}

// Back receives an element when the hub answers again: it may have been restored.
func (s *Store) Back() <-chan struct{} { return s.back }

// answered reports whether the hub answered a request, if only by a refusal.
func answered(err error) bool {
	code := 0
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	return err == nil || code != 0 && code < http.StatusInternalServerError || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// backoff returns the pauses after requests that fail: 1 s, 2 s, 4 s and so on up to 10 s, and as much again at random (rule C70 of
// docs/spec/control-plane.md).
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 5, Cap: 10 * time.Second}
}

// ask repeats a request, with pauses, as long as it says so.
func ask(ctx context.Context, request func() (err error, again bool)) error {
	for pauses := backoff(); ; {
		if err, again := request(); !again || sleep(ctx, pauses.Step()) != nil {
			return err
		}
	}
}

// unanswered reports whether a request is to be repeated because the hub didn't answer it, or was too busy.
func unanswered(err error) bool { return !answered(err) || apierrors.IsTooManyRequests(err) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
