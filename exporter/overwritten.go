package exporter

import (
	"hash/maphash"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// rewriteEvery is the least time between two writes of a service's records that are only needed because someone else changed
// them.
const rewriteEvery = time.Second

// overwritten distinguishes records that must be written because something changed here from records that someone else has
// changed on the hub. The latter are restored at once the first time. If they are changed again, most likely a clone does it
// (see package membership), and each of our writes would cause one of its own, as fast as the hub allows. So from then on they are
// restored once a second, and the Lease is checked.
type overwritten struct {
	mu    sync.Mutex
	wrote map[types.NamespacedName]written
	seen  chan struct{} // has an element if someone else has changed the same records again
}

type written struct {
	from      uint64    // see versionOf
	rewritten time.Time // when it was last written although nothing had changed here
}

func newOverwritten() *overwritten {
	return &overwritten{wrote: map[types.NamespacedName]written{}, seen: make(chan struct{}, 1)}
}

// ask is called if a service's records aren't what they should be. others means that someone else changed them, and wait is how
// long to leave them.
func (o *overwritten) ask(src Source, want Desired, firstPassDone bool) (others bool, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, known := o.wrote[src.Key]
	// A record of a service that isn't exported here and that we never wrote is an orphan in the first pass, and someone else's
	// after it.
	others = known && was.from == versionOf(src, want) || !known && want.Service == nil && firstPassDone
	if !others {
		return false, 0
	}
	return true, max(rewriteEvery-time.Since(was.rewritten), 0)
}

// note records that the hub now has what it should.
func (o *overwritten) note(src Source, want Desired, others bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, now := o.wrote[src.Key], written{from: versionOf(src, want)}
	switch {
	case others:
		if now.rewritten = time.Now(); now.rewritten.Sub(was.rewritten) < time.Minute {
			select {
			case o.seen <- struct{}{}:
			default:
			}
		}
	case want.Service == nil:
		delete(o.wrote, src.Key)
		return
	}
	o.wrote[src.Key] = now
}

var versionSeed = maphash.MakeSeed()

// versionOf identifies the input of a service's records, whatever the order of its slices. 0 means no records.
func versionOf(src Source, want Desired) (sum uint64) {
	if want.Service == nil {
		return 0
	}
	add := func(o metav1.Object) {
		sum += maphash.String(versionSeed, string(o.GetUID())+" "+o.GetResourceVersion())
	}
	sum = 1
	if src.Service != nil { // nil for one that may be replaced
		add(src.Service)
	}
	if src.Export != nil { // nil for a withdrawal that is held
		add(src.Export)
	}
	for i := range src.Slices {
		add(&src.Slices[i])
	}
	return sum
}
