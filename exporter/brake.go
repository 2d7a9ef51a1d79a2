package exporter

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// massExports is how many exports may end within moments of each other without being held.
	massExports = 10
	// goneFor is how long an ended export counts together with later ones.
	goneFor = 30 * time.Second
	// settleFor is how long it must be quiet before exports that end together are counted, and settleMost the longest wait for
	// that.
	settleFor, settleMost = 2 * time.Second, 10 * time.Second
	// kindRetry is when to check again whether the member serves ServiceExports.
	kindRetry = 15 * time.Second
	// judgeFor is how long the requests for a count may take, and judgeRetry when another service looks for the result.
	judgeFor, judgeRetry = 5 * time.Second, 200 * time.Millisecond
)

// DefaultHoldWithdrawals is the default of Options.HoldWithdrawals.
const DefaultHoldWithdrawals = 10 * time.Minute

// brake holds back withdrawals that may be a mistake. A ServiceExport that is deleted while its Service exists is withdrawn if it isn't
// back after a few seconds. Before that, those that went at about the same time are counted: more than ten, and more than half of all,
// suggest a script that went wrong, or a deleted CustomResourceDefinition that took all its objects with it. Those services stay exported
// until their ServiceExports are back, their Services are deleted too, or ten minutes have passed.
//
// One service asks the API server and counts, for all that wait. No request is made while the brake is locked.
type brake struct {
	holdFor    time.Duration // 0: nothing is held
	replaceFor time.Duration // see Options.ReplaceFor
	// served returns nil if the member serves ServiceExports. If the kind is gone, or being deleted, missing objects mean
	// nothing.
	served func(ctx context.Context, key types.NamespacedName) error
	// count returns the services on the hub that have a Service but no ServiceExport, and how many services are on the hub.
	count func(ctx context.Context) (going []types.NamespacedName, exported int, err error)

	mu       sync.Mutex
	judging  bool                               // a service asks and counts at the moment
	lost     bool                               // the kind is gone
	probed   time.Time                          // when the API server last said whether it is
	gone     map[types.NamespacedName]time.Time // when exports ended recently
	waiting  map[types.NamespacedName]time.Time // since when
	arrived  time.Time                          // when the last of them came
	released map[types.NamespacedName]bool      // to be withdrawn
	held     map[types.NamespacedName]time.Time // until when
	told     map[types.NamespacedName]bool      // those of held that have been reported
}

// stopped is what to do with a service whose Service or ServiceExport is gone.
type stopped struct {
	held bool
	// fresh is set if it wasn't held before.
	fresh bool
	// retry is when to check again. It stays exported until then. 0: it is withdrawn now.
	retry time.Duration
}

// ask decides for one service whose ServiceExport is gone.
func (b *brake) ask(ctx context.Context, key types.NamespacedName) (stopped, error) {
	if s, known := b.look(key); known {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, judgeFor)
	defer cancel()
	var going []types.NamespacedName
	var exported int
	kind, err := b.served(ctx, key), error(nil)
	if kind == nil {
		going, exported, err = b.count(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judging = false
	if err != nil {
		return stopped{}, fmt.Errorf("count exports: %w", err)
	}
	b.judge(ctx, key, kind, going, exported)
	return b.answer(key), nil
}

// look returns what is known of a service. If it is time to decide, known is false, and the caller decides for all.
func (b *brake) look(key types.NamespacedName) (s stopped, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	until, held := b.held[key]
	if held {
		if !b.lost && until.After(now) || b.lost && now.Sub(b.probed) < kindRetry {
			return b.answer(key), true
		}
	} else if !b.released[key] {
		first, waits := b.waiting[key]
		if !waits {
			put(&b.waiting, key, now)
			first, b.arrived = now, now
		}
		if left := max(b.replaceFor-now.Sub(first), min(settleFor-now.Sub(b.arrived), settleMost-now.Sub(first))); left > 0 {
			return stopped{retry: left}, true
		}
	}
	switch {
	case !held && b.released[key]:
		return stopped{}, true
	case b.judging:
		return stopped{held: held, retry: judgeRetry}, true
	}
	b.judging = true
	return stopped{}, false
}

// judge decides for all that have waited, and for key, whose time is over.
func (b *brake) judge(ctx context.Context, key types.NamespacedName, kind error, going []types.NamespacedName, exported int) {
	logger := log.FromContext(ctx).WithName("brake")
	now := time.Now()
	b.probed = now
	if kind != nil {
		if !b.lost {
			b.lost = true
			logger.Error(kind, "This cluster doesn't serve ServiceExports any more; what it exports stays exported")
		}
		put(&b.held, key, time.Time{})
		for k := range b.waiting {
			b.held[k] = time.Time{}
		}
		clear(b.waiting)
		return
	}
	if b.lost {
		b.lost = false
		for k := range b.held {
			b.held[k] = now.Add(b.holdFor)
		}
		logger.Info("This cluster serves ServiceExports again; services without one stay exported for a while", "services", len(b.held), "until", now.Add(b.holdFor))
	}
	for k, until := range b.held {
		if !until.After(now) {
			b.letGo(k, now)
		}
	}
	if _, waits := b.waiting[key]; !waits {
		return
	}
	maps.DeleteFunc(b.gone, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > goneFor })
	gone := len(b.gone) // without those that are still on the hub
	for _, k := range going {
		if _, refused := b.gone[k]; refused {
			gone--
		}
	}
	if n := len(going) + gone; b.holdFor > 0 && n > massExports && 2*n > exported+gone {
		for _, k := range going {
			put(&b.held, k, now.Add(b.holdFor))
		}
		put(&b.held, key, now.Add(b.holdFor))
		clear(b.waiting)
		logger.Info("Most ServiceExports of this cluster were deleted at once while their Services exist; the Services stay exported until the ServiceExports are back, or for a while. "+
			"To confirm, delete the Services or start the agent with --hold-withdrawals=0", "services", len(b.held), "went before", gone, "of", exported+gone, "until", now.Add(b.holdFor))
		return
	}
	for k, first := range b.waiting {
		if now.Sub(first) >= b.replaceFor {
			b.letGo(k, now)
		}
	}
}

// answer returns what has been decided for a service.
func (b *brake) answer(key types.NamespacedName) stopped {
	until, held := b.held[key]
	switch {
	case !held && b.released[key]:
		return stopped{}
	case !held:
		return stopped{retry: judgeRetry}
	}
	s := stopped{held: true, fresh: !b.told[key], retry: time.Until(until)}
	if b.lost {
		s.retry = kindRetry
	}
	put(&b.told, key, true)
	return s
}

func (b *brake) letGo(key types.NamespacedName, now time.Time) {
	delete(b.waiting, key)
	delete(b.held, key)
	delete(b.told, key)
	put(&b.released, key, true)
	put(&b.gone, key, now)
}

// forget forgets a service that is exported, not on the hub, or has no Service.
func (b *brake) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, key)
	delete(b.held, key)
	delete(b.told, key)
	delete(b.released, key)
}

func put[V any](m *map[types.NamespacedName]V, key types.NamespacedName, value V) { //nolint:gocritic // it creates the map
	if *m == nil {
		*m = map[types.NamespacedName]V{}
	}
	(*m)[key] = value
}
