package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
)

// queue retries services as the exporter's controller does: with a backoff, and when the gate has them tried.
type queue struct {
	*gate
	mu     sync.Mutex
	takes  func(types.NamespacedName) bool // whether the hub takes its record
	writes int
	wrote  map[types.NamespacedName]time.Duration
	began  time.Time
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
}

func newQueue(t *testing.T, takes func(types.NamespacedName) bool) *queue {
	q := &queue{
		gate: newGate(), takes: takes, wrote: map[types.NamespacedName]time.Duration{}, began: time.Now(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](20*time.Millisecond, maxBackoff)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range DefaultWorkers {
		all.Go(q.work)
	}
	all.Go(func() {
		_ = q.run(ctx, func(_ context.Context, keys []types.NamespacedName) bool { q.add(keys...); return true })
	})
	t.Cleanup(func() { q.queue.ShutDown(); cancel(); all.Wait() })
	return q
}

func (q *queue) add(keys ...types.NamespacedName) {
	for _, key := range keys {
		q.queue.Add(key)
	}
}

func (q *queue) work() {
	for {
		key, over := q.queue.Get()
		if over {
			return
		}
		if q.write(key) {
			q.queue.Forget(key)
		} else {
			q.queue.AddRateLimited(key)
		}
		q.queue.Done(key)
	}
}

func (q *queue) write(key types.NamespacedName) (done bool) {
	if q.has(key) {
		q.forget(key)
		return true
	}
	if q.ask(key) != nil {
		return false
	}
	elapse(10 * time.Millisecond) // the request
	q.mu.Lock()
	defer q.mu.Unlock()
	q.writes++
	if !q.takes(key) {
		q.failed(key, errors.New("mvcc: database space exceeded"))
		return false
	}
	q.answered(key)
	q.wrote[key] = time.Since(q.began)
	return true
}

func (q *queue) has(key types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, done := q.wrote[key]
	return done
}

// written returns how many services have been written, and how many requests there were.
func (q *queue) written() (done, requests int) {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.wrote), q.writes
}

func (q *queue) set(takes func(types.NamespacedName) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takes = takes
}

func nth(n int) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", n)}
}

func all(types.NamespacedName) bool  { return true }
func none(types.NamespacedName) bool { return false }

// Rule C71 of docs/spec/control-plane.md: a full hub isn't asked for each of a thousand records again and again, and soon after it has room
// it has all of them.
func TestFullHubIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, none)
		for i := range 1000 {
			q.add(nth(i))
		}
		elapse(time.Minute)
		if done, requests := q.written(); done > 0 || requests > 25 {
			t.Errorf("%d requests in a minute", requests)
		}
		q.set(all)
		_, before := q.written()
		elapse(15 * time.Second)
		if done, requests := q.written(); done < 1000 || requests-before > 1010 {
			t.Errorf("a quarter of a minute after the hub has room, %d services are written, with %d requests", done, requests-before)
		}
	})
}

// The hub is asked at once if it is known to be back.
func TestReturningHubGetsAllRecordsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, none)
		for i := range 100 {
			q.add(nth(i))
		}
		elapse(time.Minute)
		q.set(all)
		q.hurry()
		elapse(time.Second)
		if done, _ := q.written(); done < 100 {
			t.Errorf("a second after the hub is back, %d services are written", done)
		}
	})
}

// Records that the hub can't take, for example because a webhook is down for them, delay others only for a moment, however many they are,
// and aren't tried again with each of those.
func TestOnlyWhatFailsWaits(t *testing.T) {
	for _, failing := range []int{1, 3, 100} {
		t.Run(fmt.Sprint(failing, " fail"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, func(key types.NamespacedName) bool { return key.Name >= "x" })
				for i := range failing {
					q.add(nth(i))
				}
				elapse(time.Minute)
				var slowest time.Duration
				_, before := q.written()
				for i := range 100 {
					key := types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("x-", i)}
					added := time.Since(q.began)
					q.add(key)
					elapse(15 * time.Second)
					synctest.Wait()
					q.mu.Lock()
					at, done := q.wrote[key]
					q.mu.Unlock()
					if !done {
						t.Fatalf("%s isn't written after a quarter of a minute", key)
					}
					slowest = max(slowest, at-added)
				}
				_, requests := q.written()
				if failing < strikesOut && slowest > 10*time.Millisecond || slowest > probeMost*3/2+time.Second {
					t.Errorf("a service waited for %s", slowest)
				}
				// The hundred, each that fails once or twice, and their turns, which come more often after a success.
				if most := 100 + 2*failing + 1500/8*2; requests-before > most {
					t.Errorf("%d requests, want at most %d", requests-before, most)
				}
			})
		})
	}
}
