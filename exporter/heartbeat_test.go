package exporter

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/exporter/membership"
)

// unclaimed returns a claim on a name that no other agent uses, on a hub that answers.
func unclaimed() *claim {
	return &claim{lease: func(context.Context) (*coordinationv1.Lease, error) { return nil, nil }}
}

func nothing(context.Context) error { return nil }

// start runs a heartbeat until the test ends. What isn't set does nothing; the first pass is done.
func (h *heartbeat) start(t *testing.T) {
	h.interval = 10 * time.Second
	if h.after == nil {
		ready := make(chan struct{})
		close(ready)
		h.after = ready
	}
	if h.upToDate == nil {
		h.upToDate = nothing
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
		finished := make(chan struct{})
		var beats []time.Duration
		began := time.Now()
		h := &heartbeat{after: finished, claim: unclaimed(), renew: func(context.Context) error {
			beats = append(beats, time.Since(began))
			return errors.New("the hub is away") // a failure doesn't stop the next heartbeat
		}}
		h.start(t)
		elapse(2 * time.Minute)
		synctest.Wait()
		if len(beats) != 0 {
			t.Fatalf("heartbeats at %v before the first pass is done", beats)
		}
		close(finished)
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
		away, behind := true, true
		var beats []time.Duration
		h := &heartbeat{
			claim: unclaimed(),
			renew: func(context.Context) error {
				if away {
					return errors.New("no route")
				}
				beats = append(beats, time.Since(began))
				return nil
			},
			upToDate: func(ctx context.Context) error {
				if away || !behind {
					return nil
				}
				<-ctx.Done()
				return errBehind
			},
		}
		h.start(t)
		elapse(15 * time.Second)
		away = false
		elapse(17 * time.Second)
		behind = false
		elapse(13 * time.Second)
		synctest.Wait()
		// At 20 s it waits for 5 s. It tries again after 1 s, until 31 s, and after 2 s.
		if len(beats) != 2 || beats[0] != 33*time.Second {
			t.Errorf("heartbeats at %v", beats)
		}
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
