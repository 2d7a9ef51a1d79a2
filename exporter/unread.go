package exporter

import (
	"strconv"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unreadFor is how long a write is expected to be on its way into our cache. After that the hub was restored, or the watch hangs.
const unreadFor = time.Second

// unread remembers our last writes, until the cache has them. A service that is reconciled before would be written once more, in vain: the
// hub refuses an update of an earlier version. A hub that is back would get each record twice.
type unread struct {
	mu sync.Mutex
	of map[string]unreadWrite // by kind and name
}

type unreadWrite struct {
	version uint64
	at      time.Time
}

func (u *unread) note(kind string, wrote client.Object) {
	version, err := strconv.ParseUint(wrote.GetResourceVersion(), 10, 64)
	if err != nil {
		return // it is opaque
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[string]unreadWrite{}
	}
	u.of[kind+wrote.GetName()] = unreadWrite{version, time.Now()}
}

func (u *unread) forget(kind, name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.of, kind+name)
}

// wait returns how long to wait before steps that were planned without our last writes. The event that ends that comes sooner.
func (u *unread) wait(steps []step) (wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range steps {
		at := s.kind + s.object.GetName()
		last, known := u.of[at]
		if !known {
			continue
		}
		has, err := strconv.ParseUint(s.object.GetResourceVersion(), 10, 64)
		left := unreadFor - time.Since(last.at)
		if left <= 0 || s.verb != verbCreate && (err != nil || has >= last.version) {
			delete(u.of, at)
			continue
		}
		wait = max(wait, left)
	}
	return wait
}
