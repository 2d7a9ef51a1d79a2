package hubcache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// retryAfter is the pause before a request that failed is repeated, plus up to half of it at random, so that a hub that comes back doesn't
// get all watches of all members at once (rule C70 of docs/spec/control-plane.md). Where pauses grow, they grow up to retryMost.
const retryAfter, retryMost = time.Second, 30 * time.Second

// saysEvery is the shortest time between two lines in the log about requests that are repeated.
const saysEvery = time.Minute

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
	Since time.Time
	// Epoch counts how often the hub is known to have gone back in time, because it was restored from a backup. Resource versions of
	// different epochs can't be compared: the same version may have other content.
	Epoch int
}

// link is the connection to an API server. It repeats requests until they are answered.
type link struct {
	turn chan struct{} // has an element while a request is repeated
	back chan struct{} // has an element when the API server is back
	// restored has an element when an epoch has begun.
	restored chan struct{}

	mu    sync.Mutex
	state State
	up    chan struct{} // closed when the API server answers again, or is no longer overloaded
	said  string        // why requests are repeated, once that has been logged; "": they aren't
	at    time.Time     // when something was last logged
}

func newLink() *link {
	return &link{
		turn: make(chan struct{}, 1), back: make(chan struct{}, 1), restored: make(chan struct{}, 1),
		up: make(chan struct{}), state: State{Since: time.Now()},
	}
}

// ask repeats a request until it is answered, if only by a refusal, or ctx ends. Of the requests that fail, one at a time is repeated;
// once it is answered, the others follow at once. An API server that is overloaded may refuse them again: then one asks for all again.
func (l *link) ask(ctx context.Context, request func() error) error {
	for {
		up := l.awaited()
		if err := request(); ctx.Err() != nil || l.note(ctx, err) {
			return err
		}
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-up:
				waiting = false
			case l.turn <- struct{}{}:
				done, err := l.repeat(ctx, up, request)
				if done {
					return err
				}
			}
		}
	}
}

// repeat repeats a request once, unless another is answered first.
func (l *link) repeat(ctx context.Context, up <-chan struct{}, request func() error) (done bool, err error) {
	defer func() { <-l.turn }()
	timer := time.NewTimer(jittered(retryAfter))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-up:
		return false, nil
	case <-timer.C:
	}
	err = request()
	if ctx.Err() != nil || !l.note(ctx, err) {
		return ctx.Err() != nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake()
	return true, err
}

// wake lets the requests that wait be repeated. The caller has locked l.
func (l *link) wake() {
	close(l.up)
	l.up = make(chan struct{})
}

func (l *link) awaited() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// note records the result of a request. It reports whether the request needn't be repeated.
func (l *link) note(ctx context.Context, err error) bool {
	code := 0
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		code = int(status.Status().Code)
	}
	answered := err == nil || code != 0 && code < http.StatusInternalServerError || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	l.mu.Lock()
	defer l.mu.Unlock()
	phase := Away
	if answered {
		phase = Live
	}
	if was := l.state.Phase; was != phase {
		l.state.Phase, l.state.Since = phase, time.Now()
		if was == Away {
			l.wake()
			select {
			case l.back <- struct{}{}:
			default:
			}
		}
	}
	if answered && code != http.StatusTooManyRequests {
		l.said = ""
		return true
	}
	l.say(ctx, code, err)
	return false
}

// say logs a new reason why a request is repeated, one in saysEvery: some name the port that a connection came from. The caller has locked l.
func (l *link) say(ctx context.Context, code int, err error) {
	reason := fmt.Sprint(code)
	if code == 0 {
		var of *url.Error
		if reason = err.Error(); errors.As(err, &of) {
			reason = of.Err.Error() // whichever request it is
		}
	}
	if reason != l.said && time.Since(l.at) >= saysEvery {
		l.said, l.at = reason, time.Now()
		log.FromContext(ctx).Info("The hub doesn't answer, asking again", "reason", err.Error())
	}
}

// open returns an error for a watch that couldn't be opened. For some reasons client-go returns a watch that has ended instead.
func open(w watch.Interface, err error) (watch.Interface, error) {
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
		return nil, errors.New("the hub closed the connection, or didn't reply in time")
	}
	return w, err
}

func jittered(d time.Duration) time.Duration { return d + rand.N(d/2) }

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
