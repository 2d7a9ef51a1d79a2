package store

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
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

// link tells by the results of requests whether the hub answers.
type link struct {
	back chan struct{} // has an element when the hub is back

	mu    sync.Mutex
	state State
	said  string    // the last reason in the log
	at    time.Time // when that was logged
}

func newLink() *link { return &link{back: make(chan struct{}, 1), state: State{Since: time.Now()}} }

// observe notes the result of a request.
func (l *link) observe(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	phase := Away
	if answered(err) {
		phase = Live
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !apierrors.IsResourceExpired(err) && reasonOf(err) != l.said && time.Since(l.at) >= saysEvery {
		l.said, l.at = reasonOf(err), time.Now()
		log.FromContext(ctx).Info("Can't read the hub, asking again", "reason", l.said)
	}
	if was := l.state.Phase; was != phase {
		l.state = State{phase, time.Now()}
		if phase == Live {
			l.said = ""
		}
		if was == Away {
			signal(l.back)
		}
	}
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// answered reports whether the hub answered a request, if only by a refusal.
func answered(err error) bool {
	code := 0
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	return err == nil || code != 0 && code < http.StatusInternalServerError || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// reasonOf returns an error without the request that it is of.
func reasonOf(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return err.Error()
}

// backoff returns the pauses after requests that fail: 1 s, 2 s, 4 s and so on up to 10 s, and as much again at random (rule C70 of
// docs/spec/control-plane.md).
func backoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 5, Cap: 10 * time.Second}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
