package exporter

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// probeFirst and probeMost are the pauses between two attempts to write to a hub that takes no records, at first and at most, plus up to half
	// of that at random.
	probeFirst, probeMost = time.Second, 8 * time.Second
	// failuresInARow is after how many failures, one after another, the hub takes no records.
	failuresInARow = 8
)

// limiter bounds how often a hub is asked to take records while it takes none, for example because its etcd is full (rule C70 of
// docs/spec/control-plane.md): one service at a time. Once one is written, all may be. The zero value is ready for use.
type limiter struct {
	mu       sync.Mutex
	failures int // in a row
	trying   bool
	pause    time.Duration
	next     time.Time
}

// waits is an error that says when a service may be written.
type waits time.Duration

func (waits) Error() string {
	return "the hub can't take records now; the conditions of other ServiceExports say why, and it is tried again within seconds"
}

// ask returns nil if a service may be written now. Then failed or answered must follow. Services that didn't fail the last time come first.
func (l *limiter) ask(failed bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures < failuresInARow {
		return nil
	}
	wait := time.Until(l.next)
	if failed {
		wait += probeFirst
	}
	if l.trying {
		wait = max(wait, probeFirst)
	}
	if wait > 0 {
		return waits(wait)
	}
	l.trying = true
	return nil
}

// failed records that the hub couldn't take a service's records.
func (l *limiter) failed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures++; l.trying || l.pause == 0 {
		l.pause = min(max(2*l.pause, probeFirst), probeMost)
	}
	l.trying, l.next = false, time.Now().Add(l.pause+rand.N(l.pause/2))
}

// answered records that the hub took or refused a service's records.
func (l *limiter) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.trying, l.pause = 0, false, 0
}

// hurry lets a service be tried at once: the hub may be back.
func (l *limiter) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.pause = time.Now(), 0
}
