package exporter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/exporter/membership"
)

// unclaimed returns a claim on a name that no other agent uses, on a hub that answers.
func unclaimed() *claim {
	return &claim{lease: func(context.Context) (*coordinationv1.Lease, error) { return nil, nil }}
}

func nothing(context.Context) error { return nil }

// start runs a heartbeat until the test ends. What isn't set does nothing; the first pass is done.
func (h *heartbeat) start(t *testing.T) {
	h.interval, h.hurry = 10*time.Second, func() {}
	if h.after == nil {
		ready := make(chan struct{})
		close(ready)
		h.after = ready
	}
	for _, f := range []*func(context.Context) error{&h.current, &h.catchUp} {
		if *f == nil {
			*f = nothing
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Rule C20 of docs/spec/control-plane.md.
func TestNoHeartbeatBeforeTheFirstPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPass()
		var beats []time.Duration
		began := time.Now()
		h := &heartbeat{after: p.finished, claim: unclaimed(), renew: func(context.Context) error {
			beats = append(beats, time.Since(began))
			return errors.New("the hub is away") // a failure doesn't stop the next heartbeat
		}}
		h.start(t)

		other := types.NamespacedName{Namespace: "shop", Name: "db"}
		p.done(web) // before the pass has begun, so it doesn't count
		p.begin([]types.NamespacedName{web, other})
		elapse(time.Minute)
		p.done(web)
		elapse(time.Minute)
		synctest.Wait()
		if len(beats) != 0 {
			t.Fatalf("heartbeats at %v with a service pending", beats)
		}
		p.done(other)
		p.done(other)
		elapse(25 * time.Second)
		synctest.Wait()
		if len(beats) != 3 || beats[0] != 2*time.Minute || beats[2] != 2*time.Minute+20*time.Second {
			t.Errorf("heartbeats at %v", beats)
		}
	})
}

// A cluster that reaches the hub again writes what has changed before it sends a heartbeat.
func TestHeartbeatWaitsForWhatChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		// The goroutines below run while the test sleeps. The race detector doesn't accept that as synchronization, so all of them lock.
		var mu sync.Mutex
		var noRoute error
		var works bool
		var beats, tries []time.Duration
		waiting, changed := newPass(), false
		h := &heartbeat{
			claim: &claim{lease: func(context.Context) (*coordinationv1.Lease, error) {
				mu.Lock()
				defer mu.Unlock()
				return nil, noRoute
			}},
			renew: func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				if noRoute == nil {
					beats = append(beats, time.Since(began))
				}
				return noRoute
			},
			catchUp: func(ctx context.Context) error {
				mu.Lock()
				keys := map[bool][]types.NamespacedName{true: {web}}[changed]
				mu.Unlock()
				return waiting.again(ctx, keys)
			},
		}
		go func() {
			for {
				select {
				case <-t.Context().Done():
					return
				case e := <-waiting.keys:
					mu.Lock()
					tries = append(tries, time.Since(began))
					if works {
						changed = false
						waiting.done(e.Object)
					} else {
						waiting.tried(e.Object)
					}
					mu.Unlock()
				}
			}
		}()
		h.start(t)
		expect := func(what string, wantBeats, wantTries int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if len(beats) != wantBeats || len(tries) != wantTries {
				t.Errorf("%s: heartbeats at %v, tries at %v; want %d and %d", what, beats, tries, wantBeats, wantTries)
			}
		}
		become := func(away, written bool) {
			mu.Lock()
			defer mu.Unlock()
			noRoute, works = nil, written
			if away {
				noRoute = errors.New("no route")
			}
		}
		elapse(5 * time.Second)
		expect("the hub is there", 1, 0)
		become(true, false)
		mu.Lock()
		changed = true
		mu.Unlock()
		elapse(30 * time.Second) // beats at 10, 20, 30
		expect("the hub is away", 1, 0)
		become(false, false)
		elapse(10 * time.Second) // 40
		expect("it is back, and the record isn't written yet", 1, 1)
		become(false, true)
		elapse(10 * time.Second) // 50
		expect("it is", 2, 2)
		elapse(10 * time.Second) // 60
		expect("nothing to catch up with", 3, 2)

		// A record that is never written holds heartbeats back for no longer than maxHeldBack. Each attempt lasts five seconds. The next one
		// follows a second later, then two, four and eight, and then ten.
		become(true, false)
		mu.Lock()
		changed = true
		mu.Unlock()
		elapse(10 * time.Second) // 70
		become(false, false)
		elapse(54 * time.Second)
		expect("held back", 3, 2+6)
		elapse(5 * time.Second)
		expect("held back for long enough", 4, 2+6)
	})
}

// A starting API server refuses the first requests. The agent asks again soon, without waiting for its next heartbeat, and renews nothing
// before it knows the hub's state: only the Lease shows whether the hub was restored.
func TestReturningHubIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, back := time.Now(), make(chan struct{}, 1)
		var starting atomic.Bool
		relists, renewed := 0, []time.Duration{}
		name := &claim{uid: func(context.Context) (string, error) { return "", nil }, name: membership.Name{Run: "run", Interval: 10 * time.Second}, lease: func(context.Context) (*coordinationv1.Lease, error) {
			if starting.Load() {
				return nil, errors.New("it starts")
			}
			return nil, nil // the earlier Lease is gone
		}}
		_ = name.take(t.Context())
		h := &heartbeat{
			claim: name, back: back, relist: func() { relists++ },
			renew: func(context.Context) error {
				renewed = append(renewed, time.Since(began))
				name.renewing(metav1.NowMicro())
				name.name.Renewed()
				return nil
			},
		}
		h.start(t)
		elapse(3 * time.Second)
		synctest.Wait()
		starting.Store(true)
		back <- struct{}{}
		elapse(2500 * time.Millisecond)
		synctest.Wait()
		starting.Store(false)
		elapse(time.Second)
		synctest.Wait()
		if relists != 1 || len(renewed) != 2 || renewed[1] != 6*time.Second {
			t.Errorf("everything was listed again %d times, heartbeats at %v", relists, renewed)
		}
	})
}

// Whatever services meet, they delay the cluster's first heartbeat by no more than a minute: one that fails because a webhook is down, one
// whose request hangs or whose turn never ends, and those that wait behind it. If the hub is only slow, the pass takes as long as it takes.
// Rule C20 of docs/spec/control-plane.md.
func TestServicesHoldTheFirstPassForAMinute(t *testing.T) {
	other := types.NamespacedName{Namespace: "shop", Name: "db"}
	const long = passPatience + 30*time.Second
	for _, c := range []struct {
		name      string
		reconcile func(p *pass, key types.NamespacedName)
		took      time.Duration
	}{
		{"one fails again and again", func(p *pass, key types.NamespacedName) {
			p.tried(key)
			if key == other {
				p.done(key)
				return
			}
			for p.isPending(web) {
				p.tried(web)
				elapse(retryConflict)
			}
		}, passPatience},
		{"one hangs, and the other waits behind it", func(p *pass, key types.NamespacedName) {
			if key == web {
				p.tried(key)
			}
		}, passPatience},
		{"one is late, but the hub is only slow", func(p *pass, key types.NamespacedName) {
			if key == other {
				elapse(long)
			}
			p.tried(key)
			p.done(key)
		}, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, began := newPass(), time.Now()
				go func() {
					for range 2 {
						key := (<-p.keys).Object
						go c.reconcile(p, key)
					}
				}()
				if err := p.queue(t.Context(), []types.NamespacedName{web, other}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took != c.took || !p.isDone() {
					t.Errorf("the pass took %s and is done: %v; want %s", took, p.isDone(), c.took)
				}
				elapse(time.Second)
			})
		})
	}
}

func (p *pass) isPending(key types.NamespacedName) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, pending := p.pending[key]
	return pending
}

func TestPassOverNothingIsDone(t *testing.T) {
	p := newPass()
	p.begin(nil)
	select {
	case <-p.finished:
	default:
		t.Error("a cluster that exports nothing never sends a heartbeat")
	}
}

func TestHangingHeartbeatIsGivenUpInTimeForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var beats []time.Duration
		h := &heartbeat{claim: unclaimed(), renew: func(ctx context.Context) error {
			beats = append(beats, time.Since(began))
			<-ctx.Done()
			return ctx.Err()
		}}
		h.start(t)
		elapse(35 * time.Second)
		synctest.Wait()
		if len(beats) != 4 {
			t.Errorf("heartbeats at %v", beats)
		}
	})
}

// elapse lets time pass in a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }
