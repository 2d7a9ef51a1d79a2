package exporter

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// probeFirst and probeMost are the pauses of a hub that takes no records, at first and at most, plus up to half of that at random.
	probeFirst, probeMost = time.Second, 8 * time.Second
	// failuresInARow is after how many failures, one after another, the hub takes no records.
	failuresInARow = 8
)

// limiter bounds how often a hub is asked to take records while it takes none, for example because its etcd is full (rule C70 of
// docs/spec/control-plane.md). The zero value is ready for use.
type limiter struct {
	mu       sync.Mutex
	failures int // in a row
	pause    time.Duration
	until    time.Time // when it is over
}

// pausedError is an error that says when a service may be written.
type pausedError time.Duration

func (pausedError) Error() string {
	return "the hub can't take records now; the conditions of other ServiceExports say why, and it is tried again within seconds"
}

// ask returns nil if a service may be written now. Services that didn't fail the last time come first.
func (l *limiter) ask(failed bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	wait := time.Until(l.until)
	if failed {
		wait += probeFirst
	}
	if l.pause > 0 && wait > 0 {
		return pausedError(wait)
	}
	return nil
}

// failed records that the hub couldn't take a service's records. The first failure after a pause begins the next one.
func (l *limiter) failed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures++; l.failures >= failuresInARow && !time.Now().Before(l.until) {
		l.pause = min(max(2*l.pause, probeFirst), probeMost)
		l.until = time.Now().Add(l.pause + rand.N(l.pause/2))
	}
}

// answered records that the hub took or refused a service's records: so it takes others too.
func (l *limiter) answered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.pause = 0, 0
}

// hurry ends the pause: the hub may be back.
func (l *limiter) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pause, l.until = 0, time.Time{}
}
