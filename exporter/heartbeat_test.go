package exporter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestNoHeartbeatBeforeTheFirstPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := newPass()
		var beats []time.Duration
		began := time.Now()
		h := &heartbeat{interval: 10 * time.Second, after: p.finished, claim: &claim{}, renew: func(context.Context) error {
			beats = append(beats, time.Since(began))
			return errors.New("the hub is away") // a failure doesn't stop the next
		}}
		stopped := make(chan struct{})
		go func() { defer close(stopped); _ = h.run(ctx) }()

		other := types.NamespacedName{Namespace: "shop", Name: "db"}
		p.done(web) // before the pass has begun, so it doesn't count
		p.begin(map[types.NamespacedName]bool{web: true, other: true})
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
		cancel()
		<-stopped
	})
}

func TestPassOverNothingIsDone(t *testing.T) {
	p := newPass()
	p.begin(map[types.NamespacedName]bool{})
	select {
	case <-p.finished:
	default:
		t.Error("a cluster that exports nothing never sends a heartbeat")
	}
}

func TestHangingHeartbeatIsGivenUpInTimeForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, ready := time.Now(), make(chan struct{})
		close(ready)
		var beats []time.Duration
		h := &heartbeat{interval: 10 * time.Second, after: ready, claim: &claim{}, renew: func(ctx context.Context) error {
			beats = append(beats, time.Since(began))
			<-ctx.Done()
			return ctx.Err()
		}}
		stopped := make(chan struct{})
		go func() { defer close(stopped); _ = h.run(ctx) }()
		elapse(35 * time.Second)
		synctest.Wait()
		if len(beats) != 4 {
			t.Errorf("heartbeats at %v", beats)
		}
		cancel()
		<-stopped
	})
}

// elapse lets time pass in a synctest bubble.
func elapse(d time.Duration) { <-time.After(d) }
