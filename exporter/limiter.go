package exporter

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// probeFirst and probeMost are the pauses between two attempts to write to a hub that takes no records, at first and at most, plus up to half
	// of that at random.
	probeFirst, probeMost = time.Second, 8 * time.Second
	// failuresInARow is after how many services that the hub couldn't take, one after another, it takes none.
	failuresInARow = 8
)

// limiter bounds how often a hub is asked to take records while it takes none, for example because its etcd is full (rule C70 of
// docs/spec/control-plane.md): one service at a time. Once one is written, all may be. The zero value is ready for use.
type limiter struct {
	mu      sync.Mutex
	failing sets.Set[types.NamespacedName] // services that failed since one was written
	waiting sets.Set[types.NamespacedName] // those that asked in vain since then
	trying  bool
	pause   time.Duration
	next    time.Time
}

// waits is an error that says when a service may be written.
type waits time.Duration

func (waits) Error() string {
	return "the hub can't take records now; the conditions of other ServiceExports say why, and it is tried again within seconds"
}

// ask returns nil if a service may be written now. Then failed or answered must follow. Services that haven't failed come first.
func (l *limiter) ask(key types.NamespacedName) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing.Len() < failuresInARow {
		return nil
	}
	wait := time.Until(l.next)
	if l.failing.Has(key) {
		wait += probeFirst
	}
	if l.trying {
		wait = max(wait, probeFirst)
	}
	if wait <= 0 {
		l.trying = true
		return nil
	}
	if l.waiting == nil {
		l.waiting = sets.New[types.NamespacedName]()
	}
	l.waiting.Insert(key)
	return waits(wait)
}

// failed records that the hub couldn't take a service's record.
func (l *limiter) failed(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing == nil {
		l.failing = sets.New[types.NamespacedName]()
	}
	if l.failing.Insert(key); l.trying || l.pause == 0 {
		l.pause = min(max(2*l.pause, probeFirst), probeMost)
	}
	l.trying, l.next = false, time.Now().Add(l.pause+rand.N(l.pause/2))
}

// answered records that the hub took or refused a service's records. It returns the services that waited for that.
func (l *limiter) answered() (waited []types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	waited = l.waiting.UnsortedList()
	l.failing, l.waiting, l.trying, l.pause = nil, nil, false, 0
	return waited
}

// hurry lets a service be tried at once: the hub may be back.
func (l *limiter) hurry() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next, l.pause = time.Now(), 0
}
