package clusterset

import (
	"sync"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/index"
)

// reachAge is how long a Reachability counts after it was last seen to be written (rule D51 of docs/spec/data-path.md). A variable, for tests.
var reachAge = 10 * time.Minute

// ageing tells how old a Reachability is, by this server's clock: the agent that writes it may be gone. The zero value has seen none.
type ageing struct {
	mu      sync.Mutex
	stamp   time.Time
	timer   *time.Timer
	expired bool
}

// saw records an object's stamp, and reports whether the object is too old. expire is called once it is; it has returned, or won't be called,
// when saw returns for the next stamp.
func (a *ageing) saw(stamp time.Time, expire func()) (old bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil && a.stamp.Equal(stamp) {
		return a.expired
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	a.stamp, a.expired = stamp, false
	var mine *time.Timer
	mine = time.AfterFunc(reachAge, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.timer == mine {
			a.expired = true
			expire()
		}
	})
	a.timer = mine
	return false
}

func (a *ageing) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// aged returns what counts of a Reachability: all of it, or nothing if its agent has stopped writing it.
func (s *store) aged(o *clustersetv1alpha1.Reachability) *clustersetv1alpha1.Reachability {
	if s.age.saw(o.Stamp.Time, func() { s.source.delete(s.kind.kind, (&index.Reachability{}).ID()) }) {
		return &clustersetv1alpha1.Reachability{ObjectMeta: o.ObjectMeta}
	}
	return o
}
