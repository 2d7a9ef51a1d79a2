package exporter

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// massExports is how many exports may go within moments of each other without a question.
	massExports = 10
	// goneFor is for how long an export that went counts among those that go with others.
	goneFor = 30 * time.Second
	// settleFor is how long it has to be quiet before exports that go together are counted, and settleMost how long they are
	// waited for.
	settleFor, settleMost = 2 * time.Second, 10 * time.Second
	// kindRetry is when to look again whether the member serves ServiceExports.
	kindRetry = 15 * time.Second
)

// DefaultHoldWithdrawals is how long exports that go together are held where nobody says.
const DefaultHoldWithdrawals = 10 * time.Minute

// brake holds exports that nobody may have meant to end. A ServiceExport that is gone, while its Service is there, is withdrawn at
// once where it is the only one. Where more follow within moments they are counted first: more than ten and more than half of all is
// a script that went wrong, or a CustomResourceDefinition that is gone and all its objects with it. They stay exported until their
// ServiceExports are back, or their Services are gone too, or for ten minutes.
type brake struct {
	holdFor time.Duration // 0: nothing is held
	// served returns nil if the member serves ServiceExports. A kind that is gone, or on its way out, says nothing.
	served func(ctx context.Context, key types.NamespacedName) error
	// count returns the services that are on the hub and have a Service and no ServiceExport, and how many are on the hub at all.
	count func(ctx context.Context) (going []types.NamespacedName, exported int, err error)
	// single says whether one that goes alone may go at once.
	single func() bool

	mu      sync.Mutex
	lost    bool                               // the kind is gone
	gone    []time.Time                        // when exports went lately
	waiting map[types.NamespacedName]time.Time // since when
	arrived time.Time                          // when the last of them came
	held    map[types.NamespacedName]time.Time // until when
	told    map[types.NamespacedName]bool      // those of held whose users were told
}

// stopped says what is to become of a service whose ServiceExport is gone.
type stopped struct {
	held bool
	// fresh says that it wasn't before.
	fresh bool
	// retry is when to look again; 0, where it isn't held: it goes now.
	retry time.Duration
}

// ask decides about one service.
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
			logger.Error(err, "This cluster doesn't serve ServiceExports any more, which says nothing of what it exports; all stays exported")
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
		logger.Info("This cluster serves ServiceExports again; those that are missing stay exported for a while", "services", len(b.held), "until", now.Add(b.holdFor))
	}
	if until, held := b.held[key]; held {
		if left := until.Sub(now); left > 0 {
			return stopped{held: true, retry: left}, nil
		}
		b.letGo(key, now)
		return stopped{}, nil
	}
	for len(b.gone) > 0 && now.Sub(b.gone[0]) > goneFor {
		b.gone = b.gone[1:]
	}
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
	if n := len(going) + len(b.gone); n <= massExports || 2*n <= exported+len(b.gone) {
		b.letGo(key, now)
		return stopped{}, nil
	}
	for _, k := range going {
		b.hold(k, now.Add(b.holdFor))
	}
	b.hold(key, now.Add(b.holdFor))
	clear(b.waiting)
	logger.Info("Most ServiceExports of this cluster went at once while their Services are there; they stay exported until they are back, or for a while. "+
		"To confirm, delete the Services or start the agent with --hold-withdrawals=0", "services", len(b.held), "went before", len(b.gone), "of", exported+len(b.gone), "until", now.Add(b.holdFor))
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
	b.gone = append(b.gone, now)
}

// forget is for services that are exported, or have no Service.
func (b *brake) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, key)
	delete(b.held, key)
	delete(b.told, key)
}
