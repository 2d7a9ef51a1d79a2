package exporter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

func nothing(context.Context) error { return nil }

// Rule C20 of docs/spec/control-plane.md. The Lease shows that the name is taken, and not that the cluster is alive.
func TestNoHeartbeatBeforeTheFirstPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, finished := newLeaseHub(), make(chan struct{})
		a := h.prepare("cluster", "run")
		a.after = finished
		h.begin(t, a)
		elapse(time.Minute)
		if lease := h.now(); !a.claim.held() || lease.Spec.RenewTime != nil || h.renewals("run") != 1 {
			t.Fatalf("with the pass under way: %+v", lease.Spec)
		}
		close(finished)
		elapse(25 * time.Second)
		if n := h.renewals("run"); n != 1+3 {
			t.Errorf("%d heartbeats in 25 s", n-1)
		}
	})
}

// A cluster that reaches the hub again writes what has changed before it sends a heartbeat. upToDate gives up after a minute.
func TestHeartbeatWaitsForWhatChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newLeaseHub()
		a := h.prepare("cluster", "run")
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
	})
}

// A starting API server refuses the first requests. The agent asks again soon, without waiting for its next heartbeat.
func TestReturningHubIsAskedAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, back := newLeaseHub(), make(chan struct{}, 1)
		a := h.prepare("cluster", "run")
		a.back = back
		h.begin(t, a)
		elapse(3 * time.Second)
		h.set(func() { h.away = true })
		back <- struct{}{}
		elapse(2500 * time.Millisecond)
		h.set(func() { h.away = false })
		elapse(2500 * time.Millisecond) // the first attempt is two seconds after the signal at most, and the third three seconds later
		synctest.Wait()
		if n := h.renewals("run") - 1; n != 2 || a.catchUps != 1 {
			t.Errorf("%d heartbeats, brought up to date %d times", n, a.catchUps)
		}
	})
}

func TestHangingHeartbeatIsGivenUpInTimeForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, tries := newLeaseHub(), 0
		a := h.prepare("cluster", "run")
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
		a := h.prepare("cluster", "run")
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
