package exporter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
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

// withdrawalGuard holds back withdrawals that may be a mistake. A ServiceExport that is deleted while its Service exists is withdrawn if it
// isn't back after a few seconds. Before that, those that went at about the same time are counted: more than ten, and more than half of all,
// suggest a script that went wrong, or a deleted CustomResourceDefinition that took all its objects with it. Those services stay exported
// until their ServiceExports are back, their Services are deleted too, or ten minutes have passed.
//
// One service asks the API server and counts, for all that wait. No request is made while it is locked.
type withdrawalGuard struct {
	holdFor    time.Duration // 0: nothing is held
	replaceFor time.Duration // see Options.ReplaceFor
	// served asks whether the member serves ServiceExports, and returns why not. If the kind is gone, or being deleted, missing objects mean
	// nothing.
	served func(ctx context.Context, key types.NamespacedName) (gone, err error)
	// count returns the services on the hub that have a Service but no ServiceExport, and how many services are on the hub.
	count func(ctx context.Context) (going []types.NamespacedName, exported int, err error)

	mu      sync.Mutex
	judging bool      // a service asks and counts at the moment
	lost    bool      // the kind is gone
	probed  time.Time // when the API server last said whether it is
	arrived time.Time // when the last service came that waits
	of      map[types.NamespacedName]*ending
	gone    map[types.NamespacedName]time.Time // when exports ended recently
}

// ending is a service on the hub whose ServiceExport is gone. It waits, until it is held or released.
type ending struct {
	since    time.Time // when it was first missed
	held     bool
	until    time.Time // when it is held no longer, unless the kind is gone
	told     bool      // that it is held
	released bool      // it is to be withdrawn
}

func (e *ending) waits() bool { return !e.held && !e.released }

// hold keeps a service exported until then.
func (e *ending) hold(until time.Time) { e.held, e.until, e.released = true, until, false }

func newWithdrawalGuard(holdFor, replaceFor time.Duration) withdrawalGuard {
	return withdrawalGuard{holdFor: holdFor, replaceFor: replaceFor, of: map[types.NamespacedName]*ending{}, gone: map[types.NamespacedName]time.Time{}}
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
func (b *withdrawalGuard) ask(ctx context.Context, key types.NamespacedName) (stopped, error) {
	if s, known := b.look(key); known {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(ctx, judgeFor)
	defer cancel()
	var going []types.NamespacedName
	var exported int
	kind, err := b.served(ctx, key)
	if kind == nil && err == nil {
		going, exported, err = b.count(ctx)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judging = false
	if err != nil {
		return stopped{}, fmt.Errorf("count exports: %w", err)
	}
	e := b.at(key)
	b.judge(ctx, e, kind, going, exported)
	return b.answer(e), nil
}

// at returns what is known of a service. One that is new waits from now on.
func (b *withdrawalGuard) at(key types.NamespacedName) *ending {
	e := b.of[key]
	if e == nil {
		b.arrived = time.Now()
		e = &ending{since: b.arrived}
		b.of[key] = e
	}
	return e
}

// look returns what is known of a service. If it is time to decide, known is false, and the caller decides for all.
func (b *withdrawalGuard) look(key types.NamespacedName) (s stopped, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.at(key)
	switch now := time.Now(); {
	case e.released:
		return stopped{}, true
	case e.held:
		if !b.lost && e.until.After(now) || b.lost && now.Sub(b.probed) < kindRetry {
			return b.answer(e), true
		}
	default:
		if left := max(b.replaceFor-now.Sub(e.since), min(settleFor-now.Sub(b.arrived), settleMost-now.Sub(e.since))); left > 0 {
			return stopped{retry: left}, true
		}
	}
	if b.judging {
		return stopped{held: e.held, retry: judgeRetry}, true
	}
	b.judging = true
	return stopped{}, false
}

// judge decides for all that have waited, and for one whose time is over.
func (b *withdrawalGuard) judge(ctx context.Context, one *ending, kind error, going []types.NamespacedName, exported int) {
	logger := log.FromContext(ctx).WithName("withdrawals")
	now := time.Now()
	b.probed = now
	if kind != nil {
		if !b.lost {
			b.lost = true
			logger.Error(kind, "This cluster doesn't serve ServiceExports any more; what it exports stays exported")
		}
		for _, e := range b.of {
			if e.waits() {
				e.hold(time.Time{})
			}
		}
		return
	}
	held := 0
	for key, e := range b.of {
		if !e.held {
			continue
		}
		if b.lost {
			e.until = now.Add(b.holdFor)
			held++
		}
		if !e.until.After(now) {
			b.letGo(key, e)
		}
	}
	if b.lost {
		b.lost = false
		logger.Info("This cluster serves ServiceExports again; services without one stay exported for a while", "services", held, "until", now.Add(b.holdFor))
	}
	if one.waits() {
		b.decide(logger, one, going, exported)
	}
}

// decide holds all services whose exports end if they are most of the cluster's. Otherwise it lets go those that have waited for long enough. Those
// that were decided on and ended earlier don't count, although they are still on the hub.
func (b *withdrawalGuard) decide(logger logr.Logger, one *ending, going []types.NamespacedName, exported int) {
	now := time.Now()
	maps.DeleteFunc(b.gone, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > goneFor })
	before := len(going)
	going = slices.DeleteFunc(going, func(key types.NamespacedName) bool {
		e := b.of[key]
		return e != nil && !e.waits() && now.Sub(e.since) > goneFor
	})
	exported -= before - len(going)
	gone := maps.Clone(b.gone)
	for _, key := range going { // still on the hub, which refuses to withdraw it
		delete(gone, key)
	}
	all := exported + len(gone)
	if n := len(going) + len(gone); b.holdFor == 0 || n <= massExports || 2*n <= all {
		for key, e := range b.of {
			if e.waits() && now.Sub(e.since) >= b.replaceFor {
				b.letGo(key, e)
			}
		}
		return
	}
	until := now.Add(b.holdFor)
	for _, key := range going {
		if e := b.at(key); !e.held {
			e.hold(until)
		}
	}
	one.hold(until)
	maps.DeleteFunc(b.of, func(_ types.NamespacedName, e *ending) bool { return e.waits() }) // their Services are gone too
	logger.Info("Most ServiceExports of this cluster were deleted at once while their Services exist; the Services stay exported until the ServiceExports are back, or for a while. "+
		"To confirm, delete the Services or start the agent with --hold-withdrawals=0", "services", len(going), "went before", len(gone), "of", all, "until", until)
}

// answer returns what has been decided for a service.
func (b *withdrawalGuard) answer(e *ending) stopped {
	switch {
	case e.released:
		return stopped{}
	case !e.held:
		return stopped{retry: judgeRetry}
	}
	s := stopped{held: true, fresh: !e.told, retry: time.Until(e.until)}
	if b.lost {
		s.retry = kindRetry
	}
	e.told = true
	return s
}

func (b *withdrawalGuard) letGo(key types.NamespacedName, e *ending) {
	if !e.held { // otherwise it ended long ago
		b.gone[key] = time.Now()
	}
	*e = ending{since: e.since, released: true}
}

// forget forgets a service that is exported or has no Service.
func (b *withdrawalGuard) forget(key types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of, key)
}
