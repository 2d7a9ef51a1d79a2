package exporter

import (
	"strconv"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unreadFor is how long a write is expected to be on its way into our cache. After that the hub was restored, or the watch hangs.
const unreadFor = time.Second

// unread are our last writes of a service's records, by kind and name, until the cache has them. A service that is reconciled before would be
// written once more, in vain: the hub refuses an update of an earlier version. A hub that is back would get each record twice.
type unread map[string]unreadWrite

type unreadWrite struct {
	version uint64
	at      time.Time
}

func (u *unread) note(kind string, wrote client.Object) {
	version, err := strconv.ParseUint(wrote.GetResourceVersion(), 10, 64)
	if err != nil {
		return // it is opaque
	}
	if *u == nil {
		*u = unread{}
	}
	(*u)[kind+wrote.GetName()] = unreadWrite{version, time.Now()}
}

func (u unread) forget(kind, name string) { delete(u, kind+name) }

// wait returns how long to wait before steps that were planned without our last writes. The event that ends that comes sooner.
func (u unread) wait(steps []step) (wait time.Duration) {
	for _, s := range steps {
		at := s.kind + s.object.GetName()
		last, known := u[at]
		if !known {
			continue
		}
		has, err := strconv.ParseUint(s.object.GetResourceVersion(), 10, 64)
		left := unreadFor - time.Since(last.at)
		if left <= 0 || s.verb != verbCreate && (err != nil || has >= last.version) {
			delete(u, at)
			continue
		}
		wait = max(wait, left)
	}
	return wait
}
