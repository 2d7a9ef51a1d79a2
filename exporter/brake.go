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
)

// DefaultHoldWithdrawals is the default of Options.HoldWithdrawals.
const DefaultHoldWithdrawals = 10 * time.Minute

// brake holds back withdrawals that may be a mistake. If a single ServiceExport is deleted while its Service exists, it is
// withdrawn at once. If more follow within moments, they are counted first: more than ten, and more than half of all, suggest a
// script that went wrong, or a deleted CustomResourceDefinition that took all its objects with it. Those services stay exported
// until their ServiceExports are back, their Services are deleted too, or ten minutes have passed.
type brake struct {
	holdFor time.Duration // 0: nothing is held
	// served returns nil if the member serves ServiceExports. If the kind is gone, or being deleted, missing objects mean
	// nothing.
	served func(ctx context.Context, key types.NamespacedName) error
	// count returns the services on the hub that have a Service but no ServiceExport, and how many services are on the hub.
	count func(ctx context.Context) (going []types.NamespacedName, exported int, err error)
	// single reports whether a single withdrawal may happen at once.
	single func() bool

	mu      sync.Mutex
	lost    bool                               // the kind is gone
	gone    map[types.NamespacedName]time.Time // when exports ended recently
	waiting map[types.NamespacedName]time.Time // since when
	arrived time.Time                          // when the last of them ended
	held    map[types.NamespacedName]time.Time // until when
	told    map[types.NamespacedName]bool      // those of held that have been reported
}

// stopped is what to do with a service whose ServiceExport is gone.
type stopped struct {
	held bool
	// fresh is set if it wasn't held before.
	fresh bool
	// retry is when to check again, 0 if it isn't held and is withdrawn now.
	retry time.Duration
}

// ask decides for one service.
func (b *brake) ask(ctx context.Context, key types.NamespacedName) (stopped, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := b.decide(ctx, key)
	if s.held && !b.told[key] {
		if b.told == nil {
			b.told = map[types.NamespacedName]bool{}
		}
		b.told[key], s.fresh = true, true
	}
	return s, err
}

func (b *brake) decide(ctx context.Context, key types.NamespacedName) (stopped, error) {
	logger := log.FromContext(ctx).WithName("brake")
	if err := b.served(ctx, key); err != nil {
		if !b.lost {
			b.lost = true
			logger.Error(err, "This cluster doesn't serve ServiceExports any more; what it exports stays exported")
		}
		b.hold(key, time.Time{})
		return stopped{held: true, retry: kindRetry}, nil
	}
	now := time.Now()
	if b.lost {
		b.lost = false
		for k := range b.held {
			b.held[k] = now.Add(b.holdFor)
		}
		logger.Info("This cluster serves ServiceExports again; services without one stay exported for a while", "services", len(b.held), "until", now.Add(b.holdFor))
	}
	if until, held := b.held[key]; held {
		if left := until.Sub(now); left > 0 {
			return stopped{held: true, retry: left}, nil
		}
		b.letGo(key, now)
		return stopped{}, nil
	}
	maps.DeleteFunc(b.gone, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > goneFor })
	first, waits := b.waiting[key]
	if !waits {
		if b.holdFor <= 0 || len(b.gone) == 0 && len(b.waiting) == 0 && b.single() {
			b.letGo(key, now)
			return stopped{}, nil
		}
		if b.waiting == nil {
			b.waiting = map[types.NamespacedName]time.Time{}
		}
		first, b.arrived = now, now
		b.waiting[key] = now
	}
	if left := min(settleFor-now.Sub(b.arrived), settleMost-now.Sub(first)); left > 0 {
		return stopped{retry: left}, nil
	}
	going, exported, err := b.count(ctx)
	if err != nil {
		return stopped{}, fmt.Errorf("count exports: %w", err)
	}
	gone := len(b.gone) // without those that are still on the hub
	for _, k := range going {
		if _, refused := b.gone[k]; refused {
			gone--
		}
	}
	if n := len(going) + gone; n <= massExports || 2*n <= exported+gone {
		b.letGo(key, now)
		return stopped{}, nil
	}
	for _, k := range going {
		b.hold(k, now.Add(b.holdFor))
	}
	b.hold(key, now.Add(b.holdFor))
	clear(b.waiting)
	logger.Info("Most ServiceExports of this cluster were deleted at once while their Services exist; the Services stay exported until the ServiceExports are back, or for a while. "+
		"To confirm, delete the Services or start the agent with --hold-withdrawals=0", "services", len(b.held), "went before", gone, "of", exported+gone, "until", now.Add(b.holdFor))
	return stopped{held: true, retry: b.holdFor}, nil
}

func (b *brake) hold(key types.NamespacedName, until time.Time) {
	if b.held == nil {
		b.held = map[types.NamespacedName]time.Time{}
	}
	b.held[key] = until
}

func (b *brake) letGo(key types.NamespacedName, now time.Time) {
	delete(b.waiting, key)
	delete(b.held, key)
	delete(b.told, key)
	if b.gone == nil {
		b.gone = map[types.NamespacedName]time.Time{}
	}
	b.gone[key] = now
}

// forget forgets a service that is exported or has no Service.
func (b *brake) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, key)
	delete(b.held, key)
	delete(b.told, key)
}
