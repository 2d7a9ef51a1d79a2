package exporter

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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
// One service asks the API server and counts, for all that wait. No request is made while mu is locked.
type withdrawalGuard struct {
	holdFor    time.Duration // 0: nothing is held
	replaceFor time.Duration // see Options.ReplaceFor
	// served asks whether the member serves ServiceExports, and returns why not. If the kind is gone, or being deleted, missing objects mean
	// nothing.
	served func(ctx context.Context, key types.NamespacedName) (gone, err error)
	// count returns the services on the hub that have a Service but no ServiceExport, and how many services are on the hub.
	count func(ctx context.Context) (going []types.NamespacedName, exported int, err error)

	judging sync.Mutex // held by the service that asks and counts
	mu      sync.Mutex
	endings
}

// endings are the services whose ServiceExports are gone while their Services exist. What is decided about them depends on nothing else.
type endings struct {
	of      map[types.NamespacedName]*ending
	lost    bool      // the kind is gone
	arrived time.Time // when the last one came
}

// ending is a service whose ServiceExport is gone. It waits, until it is held or released.
type ending struct {
	since    time.Time // when it was first missed
	until    time.Time // until when it is held; zero: it isn't
	told     bool      // that it is held
	released bool      // it is to be withdrawn
}

func (e *ending) waits() bool { return e.until.IsZero() && !e.released }

// hold keeps a service exported until then.
func (e *ending) hold(until time.Time) { e.until, e.released = until, false }

// counts reports whether a service goes at about the same time as one that goes now.
func (e *ending) counts(now time.Time) bool { return e.waits() || now.Sub(e.since) <= goneFor }

func newWithdrawalGuard(holdFor, replaceFor time.Duration) withdrawalGuard {
	return withdrawalGuard{holdFor: holdFor, replaceFor: replaceFor, endings: endings{of: map[types.NamespacedName]*ending{}}}
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
func (g *withdrawalGuard) ask(ctx context.Context, key types.NamespacedName) (stopped, error) {
	s, due := g.look(key)
	switch {
	case !due:
		return s, nil
	case !g.judging.TryLock():
		return stopped{held: s.held, retry: judgeRetry}, nil
	}
	defer g.judging.Unlock()
	ctx, cancel := context.WithTimeout(ctx, judgeFor)
	defer cancel()
	var going []types.NamespacedName
	var exported int
	kind, err := g.served(ctx, key)
	if kind == nil && err == nil {
		going, exported, err = g.count(ctx)
	}
	if err != nil {
		return stopped{}, fmt.Errorf("count exports: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.at(key, now)
	if news := g.judge(now, kind != nil, sets.New(going...).Insert(key), exported, g.holdFor, g.replaceFor); news != "" {
		log.FromContext(ctx).WithName("withdrawals").Info(news, "services without a ServiceExport", len(going), "of", exported, "reason", kind)
	}
	return g.answer(g.of[key], now), nil
}

// look returns what is known of a service, and whether it is time to decide.
func (g *withdrawalGuard) look(key types.NamespacedName) (s stopped, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	e := g.at(key, now)
	if e.waits() {
		left := max(g.replaceFor-now.Sub(e.since), min(settleFor-now.Sub(g.arrived), settleMost-now.Sub(e.since)))
		return stopped{retry: left}, left <= 0
	}
	return g.answer(e, now), !e.released && !e.until.After(now)
}

// answer returns what has been decided for a service.
func (g *withdrawalGuard) answer(e *ending, now time.Time) stopped {
	switch {
	case e.released:
		return stopped{}
	case e.waits():
		return stopped{retry: judgeRetry}
	}
	s := stopped{held: true, fresh: !e.told, retry: e.until.Sub(now)}
	e.told = true
	return s
}

// forget forgets a service that is exported or has no Service.
func (g *withdrawalGuard) forget(key types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.of, key)
}

// at returns what is known of a service. One that is new waits from now on.
func (g *endings) at(key types.NamespacedName, now time.Time) *ending {
	if g.of[key] == nil {
		g.of[key], g.arrived = &ending{since: now}, now
	}
	return g.of[key]
}

// judge decides for all that have waited, and for those that have been held for long enough. lost means that the kind is gone; going are the services
// on the hub that have a Service but no ServiceExport, and exported is how many are on the hub. It returns what is worth a line in the log.
func (g *endings) judge(now time.Time, lost bool, going sets.Set[types.NamespacedName], exported int, holdFor, replaceFor time.Duration) (news string) {
	was := g.lost
	g.lost = lost
	switch {
	case lost:
		for _, e := range g.of {
			if !e.released {
				e.hold(now.Add(kindRetry))
			}
		}
		if !was {
			return "This cluster doesn't serve ServiceExports any more; what it exports stays exported"
		}
		return ""
	case was:
		for _, e := range g.of {
			if !e.released {
				e.hold(now.Add(holdFor))
			}
		}
		return "This cluster serves ServiceExports again; services without one stay exported for a while"
	}
	if n, all := g.together(now, going, exported); holdFor > 0 && n > massExports && 2*n > all {
		for key := range going {
			if e := g.at(key, now); e.until.IsZero() && e.counts(now) {
				e.hold(now.Add(holdFor))
			}
		}
		maps.DeleteFunc(g.of, func(_ types.NamespacedName, e *ending) bool { return e.waits() }) // their Services are gone too
		news = "Most ServiceExports of this cluster were deleted at once while their Services exist; the Services stay exported until the ServiceExports are back, or for a while. " +
			"To confirm, delete the Services or start the agent with --hold-withdrawals=0"
	}
	for _, e := range g.of {
		if e.waits() && now.Sub(e.since) >= replaceFor || !e.until.IsZero() && !e.until.After(now) {
			e.until, e.released = time.Time{}, true
		}
	}
	return news
}

// together returns how many exports go at about the same time, or have just gone, and of how many. Those that were decided on and have stayed on
// the hub since don't count.
func (g *endings) together(now time.Time, going sets.Set[types.NamespacedName], exported int) (n, all int) {
	all = exported
	for key := range going {
		if e := g.of[key]; e == nil || e.counts(now) {
			n++
		} else {
			all--
		}
	}
	for key, e := range g.of {
		if e.released && e.counts(now) && !going.Has(key) {
			n, all = n+1, all+1
		}
	}
	return n, all
}
