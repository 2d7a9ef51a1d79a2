package exporter

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// probeFirst and probeMost are the pauses between two attempts to write to a hub that fails, at first and at most, plus up to half of
	// that at random.
	probeFirst, probeMost = time.Second, 8 * time.Second
	// strikesOut is after how many services in a row that the hub couldn't take it isn't asked to take others.
	strikesOut = 8
)

// gate bounds how often a hub that fails is asked to take records (rule C71 of docs/spec/control-plane.md). A service whose write failed,
// for example because the hub's etcd is full, isn't written again before its turn: of all services that wait, one at a time is tried. Once
// one that had failed succeeds, the hub takes records again, and all others follow at once.
//
// A service whose last write didn't fail waits only if those of several others have, and none has succeeded since: one record that the hub
// can't take delays no other.
type gate struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]failure
	strikes int
	turn    types.NamespacedName   // who may try
	again   []types.NamespacedName // to try at once
	changed chan struct{}          // the first service waits, or some are to be tried at once
	sooner  chan struct{}          // the hub may be back
}

// failure is why a service waits.
type failure struct {
	error
	own   bool // of the service itself, not only of others
	since time.Time
}

func newGate() *gate {
	return &gate{waiting: map[types.NamespacedName]failure{}, changed: make(chan struct{}, 1), sooner: make(chan struct{}, 1)}
}

// ask returns nil if a service may be written, or else why not.
func (g *gate) ask(key types.NamespacedName) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.turn == key {
		g.turn = types.NamespacedName{}
		return nil
	}
	if why, waits := g.waiting[key]; waits {
		return why.error
	}
	if g.strikes < strikesOut {
		return nil
	}
	g.wait(key, failure{error: errOthersFail, since: time.Now()})
	return errOthersFail
}

var errOthersFail = errors.New("the hub can't take records now; the conditions of other ServiceExports say why, and it is tried again within seconds")

func (g *gate) wait(key types.NamespacedName, why failure) {
	if len(g.waiting) == 0 {
		signal(g.changed)
	}
	g.waiting[key] = why
}

// failed records that the hub couldn't take a service's record.
func (g *gate) failed(key types.NamespacedName, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.waiting[key].own {
		g.strikes++
	}
	g.wait(key, failure{err, true, time.Time{}})
}

// answered records that the hub took or rejected what was written of a service.
func (g *gate) answered(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was, waited := g.waiting[key]
	delete(g.waiting, key)
	if waited || g.strikes >= strikesOut {
		maps.DeleteFunc(g.waiting, func(waiting types.NamespacedName, why failure) bool {
			if why.own && !was.own {
				signal(g.sooner)
				return false // this one's success doesn't say much about what has failed
			}
			g.again = append(g.again, waiting)
			return true
		})
		signal(g.changed)
	}
	g.strikes = 0
}

// forget records that a service needs no write.
func (g *gate) forget(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiting, key)
	if g.turn == key { // the next has it
		g.turn = types.NamespacedName{}
		signal(g.sooner)
	}
}

// hurry gives the next service its turn at once.
func (g *gate) hurry() { signal(g.sooner) }

// run gives the services that wait their turns until ctx ends, and has them tried.
func (g *gate) run(ctx context.Context, try func(context.Context, []types.NamespacedName) bool) error {
	pause := probeFirst
	for {
		again, waits := g.released()
		try(ctx, again)
		var next <-chan time.Time
		if waits {
			next = time.After(pause + rand.N(pause/2))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-g.changed:
			pause = probeFirst
			continue
		case <-g.sooner:
			pause = probeFirst
		case <-next:
			pause = min(2*pause, probeMost)
		}
		try(ctx, g.next())
	}
}

// released returns the services to be tried at once, and whether others wait.
func (g *gate) released() (again []types.NamespacedName, waits bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	again, g.again = g.again, nil
	return again, len(g.waiting) > 0
}

// next gives one of the services that wait its turn, and returns it: the last change that hasn't been tried, or any.
func (g *gate) next() (key []types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var last time.Time
	for waiting, why := range g.waiting {
		if len(key) == 0 || why.since.After(last) {
			g.turn, key, last = waiting, []types.NamespacedName{waiting}, why.since
		}
	}
	return key
}

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
