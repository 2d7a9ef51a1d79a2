package exporter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// errBehind is why a heartbeat is delayed for a moment.
var errBehind = errors.New("the hub doesn't have all changes made while it was unreachable")

// passPatience is how long a pass waits for services that fail, for whatever reason: a webhook that is down rejects their records, or hangs.
// They must not keep the whole cluster from its heartbeats, so that it expires; their ServiceExports say what is wrong.
const passPatience = time.Minute

// exportPass queues keys, and knows when all have been reconciled with what the hub has: every service with a source here or a record on the hub. There
// is no heartbeat before the first pass is done, nor after the hub was away or restored before another is: a cluster that returns would count as
// healthy while the hub has its old endpoints.
type exportPass struct {
	keys     chan event.TypedGenericEvent[types.NamespacedName]
	finished chan struct{} // closed when the first pass is done

	mu       sync.Mutex
	pending  map[types.NamespacedName]*snapshot
	outdated int           // how many had to be given up
	over     chan struct{} // closed when nothing is pending; nil if nobody waits
}

// snapshot is what the hub itself has of a service when a pass begins. The cache may be behind.
type snapshot struct {
	Records
	tried bool
}

func newPass() *exportPass {
	return &exportPass{keys: make(chan event.TypedGenericEvent[types.NamespacedName]), finished: make(chan struct{})}
}

// begin begins a pass, and returns a channel that is closed when it is done.
func (p *exportPass) begin(pending map[types.NamespacedName]*snapshot) (over <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending, p.outdated, p.over = pending, 0, make(chan struct{})
	over = p.over
	p.check()
	return over
}

// tried records that a service is about to be reconciled. It returns what the hub has of it, or nil if the cache says so.
func (p *exportPass) tried(key types.NamespacedName) *snapshot {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pending[key]
	if s != nil {
		s.tried = true
	}
	return s
}

// done records that a service has been reconciled with a snapshot, unless another pass has begun meanwhile. If the hub has changed since, because
// a reconcile was under way when it was read, another pass has to look.
func (p *exportPass) done(key types.NamespacedName, with *snapshot, outdated bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if with == nil || p.pending[key] != with {
		return
	}
	if outdated {
		p.outdated++
	}
	delete(p.pending, key)
	p.check()
}

// check ends the pass if it is done. The caller holds the lock.
func (p *exportPass) check() {
	if !p.isDone() {
		metricPassPending.Set(float64(len(p.pending)))
	}
	if len(p.pending) == 0 && p.over != nil {
		close(p.over)
		p.over = nil
	}
}

// left counts the services that aren't done, and those of them that have been tried.
func (p *exportPass) left() (left, tried int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.pending {
		if s.tried {
			tried++
		}
	}
	return len(p.pending) + p.outdated, tried
}

// isDone reports whether the first pass is done.
func (p *exportPass) isDone() bool {
	select {
	case <-p.finished:
		return true
	default:
		return false
	}
}

// send queues keys, until ctx ends.
func (p *exportPass) send(ctx context.Context, keys []types.NamespacedName) {
	for _, key := range keys {
		select {
		case <-ctx.Done():
			return
		case p.keys <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
		}
	}
}

// all reconciles services and waits until that is done, for those that fail at most until a time. Otherwise the error is errBehind.
func (p *exportPass) all(ctx context.Context, services map[types.NamespacedName]*snapshot, until time.Time) error {
	keys := slices.Collect(maps.Keys(services))
	over := p.begin(services)
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	go p.send(sending, keys)
	patience := time.NewTimer(time.Until(until))
	defer patience.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			waiting = false
		case <-over:
			waiting = false
		case <-patience.C:
			if left, tried := p.left(); tried > 0 {
				log.FromContext(ctx).Info("Services fail; heartbeats go on without them", "services", tried, "not done", left)
				return nil
			}
			patience.Reset(time.Second)
		}
	}
	if left, _ := p.left(); left > 0 {
		return fmt.Errorf("%w: %d services wait", errBehind, left)
	}
	return nil
}
