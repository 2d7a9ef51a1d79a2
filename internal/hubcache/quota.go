package hubcache

import (
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
)

// DefaultQuota is how much memory one cluster's records may take here: what 5,000 services of 36 endpoints do.
const DefaultQuota = 16 << 20

// readAgain is the shortest time between two lists of what was left out of a quota.
const readAgain = 10 * time.Minute

// quota bounds the memory that the records of each member take in an agent of another (rule C58 of docs/spec/control-plane.md). A record is
// counted as soon as it is decoded, and one that exceeds the quota is dropped before the next is.
type quota struct {
	limit   int
	own     string // the namespace that has no quota
	changed func(cluster string, over bool)
	again   func() // reads everything again

	mu   sync.Mutex
	used map[string]int   // by namespace on the hub: what is stored, and what a list under way has that isn't yet
	over map[string]*over // namespaces of which something was left out
}

// over is since when something is left out, and whether it is going to be read again.
type over struct {
	since  time.Time
	waited bool
}

// admit reports whether there is room for a record that takes size, in place of one that takes was.
func (q *quota) admit(namespace string, size, was int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if namespace == q.own || size <= was || q.used[namespace]+size-was <= q.limit {
		return true
	}
	if q.over[namespace] == nil {
		q.over[namespace] = &over{since: time.Now()}
		if q.changed != nil {
			go q.changed(clusterOf(namespace), true)
		}
	}
	return false
}

// use adds to what a member uses. If that makes room, what was left out of it is read again once that is allowed.
func (q *quota) use(namespace string, more int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used[namespace] += more; q.used[namespace] <= 0 {
		delete(q.used, namespace)
	}
	if o := q.over[namespace]; o != nil && !o.waited && q.room(namespace) {
		o.waited = true
		time.AfterFunc(max(0, readAgain-time.Since(o.since)), func() { q.read(namespace) })
	}
}

// room reports whether a quarter of the quota is free. The caller has locked q.
func (q *quota) room(namespace string) bool { return q.used[namespace] <= q.limit/4*3 }

// read reads what was left out of a member, unless the room was filled while it waited.
func (q *quota) read(namespace string) {
	q.mu.Lock()
	if !q.room(namespace) {
		q.over[namespace].waited = false
		q.mu.Unlock()
		return
	}
	delete(q.over, namespace)
	q.mu.Unlock()
	if q.changed != nil {
		q.changed(clusterOf(namespace), false)
	}
	q.again()
}

func clusterOf(namespace string) string {
	cluster, _ := api.ClusterOfNamespace(namespace)
	return cluster
}

// admits drops what is beyond the bounds of a record, and reports whether there is room for it. listing means that it is part of a list, which
// is stored only when it is complete.
func (f *feed) admits(o client.Object, listing bool) bool {
	bound(o)
	q, namespace := f.kind.quota, o.GetNamespace()
	if q == nil {
		return true
	}
	key, err := toolscache.MetaNamespaceKeyFunc(o)
	if err != nil {
		return false
	}
	was, size := f.kind.sizeAt(key), sizeOfRecord(o)
	if !q.admit(namespace, size, was) {
		return false
	}
	if listing && size > was {
		f.kind.reserve(f, namespace, size-was)
	}
	return true
}

// sizeAt returns what the object with a key takes in the store.
func (k *kind) sizeAt(key string) int {
	if o, known, err := k.store.GetByKey(key); known && err == nil {
		return sizeOfRecord(o.(client.Object))
	}
	return 0
}

// reserve counts what a list under way has that isn't stored yet.
func (k *kind) reserve(f *feed, namespace string, more int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.stopped {
		return
	}
	if f.reserved == nil {
		f.reserved = map[string]int{}
	}
	f.reserved[namespace] += more
	k.quota.use(namespace, more)
}

// release ends the reservations of a feed that begins another list: what the one before it had isn't going to be stored.
func (k *kind) release(f *feed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(f)
}

// count counts changes of the store, in place of what a feed has reserved for them; nil: nothing. It counts each member's at once: between
// the two, a list of the other kind would be given the same room again. The caller has locked k.
func (k *kind) count(reserved *feed, changes ...change) {
	if k.quota == nil {
		return
	}
	more := map[string]int{}
	if reserved != nil {
		for namespace, size := range reserved.reserved {
			more[namespace] -= size
		}
		reserved.reserved = nil
	}
	for _, c := range changes {
		if c.is != nil {
			o := c.is.(client.Object)
			more[o.GetNamespace()] += sizeOfRecord(o)
		}
		if c.was != nil {
			o := c.was.(client.Object)
			more[o.GetNamespace()] -= sizeOfRecord(o)
		}
	}
	for namespace, size := range more {
		k.quota.use(namespace, size)
	}
}
