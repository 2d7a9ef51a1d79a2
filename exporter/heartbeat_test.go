package exporter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

func nothing(context.Context) error { return nil }

// Rule C20 of docs/spec/control-plane.md. The Lease shows that the name is taken, and not that the cluster is alive.
func TestNoHeartbeatBeforeTheFirstPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := newLeaseHub(), newPass()
		a := h.prepare("run", &memory{})
		a.after = p.finished
		h.begin(t, a)
		other := types.NamespacedName{Namespace: "shop", Name: "db"}
		p.done(web) // before the pass has begun, so it doesn't count
		p.begin([]types.NamespacedName{web, other})
		elapse(time.Minute)
		p.done(web)
		elapse(time.Minute)
		if lease := h.now(); !a.claim.held() || lease.Spec.RenewTime != nil || h.renewals("run") != 1 {
			t.Fatalf("with a service pending: %+v", lease.Spec)
		}
		p.done(other)
		p.done(other)
		elapse(25 * time.Second)
		if n := h.renewals("run"); n != 1+3 {
			t.Errorf("%d heartbeats in 25 s", n-1)
		}
	})
}

// A cluster that reaches the hub again writes what has changed before it sends a heartbeat. A record that is never written holds heartbeats back for
// a minute at most.
func TestHeartbeatWaitsForWhatChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLeaseHub()
		a := h.prepare("run", &memory{})
		tries, works := 0, false
		a.upToDate = func(ctx context.Context) error {
			var ok bool
			h.set(func() { tries++; ok = works })
			if ok {
				return nil
			}
			<-ctx.Done()
			return errBehind
		}
		h.begin(t, a)
		// during lets time pass in a state, and returns how many heartbeats and attempts there were.
		during := func(d time.Duration, away, written bool) (beats, attempts int) {
			before := h.renewals("run")
			h.set(func() { tries, h.away, works = 0, away, written })
			elapse(d)
			h.set(func() { attempts = tries })
			return h.renewals("run") - before, attempts
		}
		elapse(25500 * time.Millisecond)
		if beats, tries := during(30*time.Second, false, false); beats != 3 || tries != 0 {
			t.Errorf("the hub is there: %d heartbeats, %d attempts", beats, tries)
		}
		if beats, tries := during(30*time.Second, true, false); beats+tries > 0 {
			t.Errorf("the hub is away: %d heartbeats, %d attempts", beats, tries)
		}
		if beats, tries := during(15*time.Second, false, false); beats > 0 || tries == 0 {
			t.Errorf("it is back, and the record isn't written yet: %d heartbeats, %d attempts", beats, tries)
		}
		if beats, tries := during(30*time.Second, false, true); beats < 2 || tries != 1 {
			t.Errorf("it is written: %d heartbeats, %d attempts", beats, tries)
		}
		during(10*time.Second, true, false)
		if beats, tries := during(45*time.Second, false, false); beats > 0 || tries < 4 {
			t.Errorf("held back: %d heartbeats, %d attempts", beats, tries)
		}
		if beats, _ := during(25*time.Second, false, false); beats == 0 {
			t.Error("held back for more than a minute")
		}
	})
}

// A starting API server refuses the first requests. The agent asks again soon, without waiting for its next heartbeat.
func TestReturningHubIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, back := newLeaseHub(), make(chan struct{}, 1)
		a := h.prepare("run", &memory{})
		a.back = back
		h.begin(t, a)
		elapse(3 * time.Second)
		h.set(func() { h.away = true })
		back <- struct{}{}
		elapse(2500 * time.Millisecond)
		h.set(func() { h.away = false })
		elapse(time.Second)
		synctest.Wait()
		if n := h.renewals("run") - 1; n != 2 || a.catchUps != 1 {
			t.Errorf("%d heartbeats, brought up to date %d times", n, a.catchUps)
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
		h, tries := newLeaseHub(), 0
		a := h.prepare("run", &memory{})
		a.on.put = func(ctx context.Context, lease *coordinationv1.Lease) error {
			if tries++; tries == 1 {
				return h.write(lease) // takes the name
			}
			<-ctx.Done()
			return ctx.Err()
		}
		h.begin(t, a)
		elapse(35 * time.Second)
		synctest.Wait()
		if tries != 1+4 {
			t.Errorf("%d heartbeats in 35 s", tries-1)
		}
	})
}

// A report that the hub refuses, or that hangs, stops no heartbeat.
func TestReportStopsNoHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, tries := newLeaseHub(), 0
		a := h.prepare("run", &memory{})
		a.report = func(ctx context.Context) error {
			if tries++; tries%2 == 0 {
				<-ctx.Done()
			}
			return errors.New("no")
		}
		h.begin(t, a)
		elapse(65 * time.Second)
		synctest.Wait()
		if n := h.renewals("run") - 1; n != 7 || tries != 7 {
			t.Errorf("%d heartbeats and %d reports in 65 s", n, tries)
		}
	})
}

// elapse lets time pass in a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }
