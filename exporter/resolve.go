package exporter

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// resolveEvery is how often a name is resolved (D92).
	resolveEvery = 10 * time.Second
	// resolveTimeout is how long that may take.
	resolveTimeout = 3 * time.Second
	// resolveAtOnce is how many names are resolved at a time.
	resolveAtOnce = 8
)

// names resolves the names of external addresses, and remembers the last good answers.
type names struct {
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	changed func(context.Context, []types.NamespacedName) bool // of services

	mu   sync.Mutex
	of   map[string]*resolved
	uses map[types.NamespacedName][]string // the names of each service
	due  chan struct{}                     // a name is to be resolved for the first time
}

// resolved is what is known of a name.
type resolved struct {
	last  []netip.Addr // the last good answer, sorted
	known bool         // there was one
	tried bool
}

func newNames(lookup func(ctx context.Context, network, host string) ([]netip.Addr, error), changed func(context.Context, []types.NamespacedName) bool) *names {
	return &names{lookup: lookup, changed: changed, of: map[string]*resolved{}, uses: map[types.NamespacedName][]string{}, due: make(chan struct{}, 1)}
}

// resolve returns a function for External.Resolve that notes which names a service uses. done is called when it has asked for all: the
// service doesn't use others any more.
func (n *names) resolve(user types.NamespacedName) (resolve func(host string) ([]netip.Addr, bool), done func()) {
	var uses []string
	resolve = func(host string) ([]netip.Addr, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		r := n.of[host]
		if r == nil {
			r = &resolved{}
			n.of[host] = r
			signal(n.due)
		}
		uses = append(uses, host)
		n.uses[user] = append(n.uses[user], host) // the answer may come before done
		return r.last, r.known
	}
	return resolve, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.uses[user] = uses; len(uses) == 0 {
			delete(n.uses, user)
		}
	}
}

// run resolves the names until ctx ends: new ones at once, and all again and again.
func (n *names) run(ctx context.Context) error {
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			n.all(ctx, func(*resolved) bool { return true })
		case <-n.due:
			n.all(ctx, func(r *resolved) bool { return !r.tried })
		}
	}
}

func (n *names) all(ctx context.Context, which func(*resolved) bool) {
	n.mu.Lock()
	used := sets.New(slices.Concat(slices.Collect(maps.Values(n.uses))...)...)
	maps.DeleteFunc(n.of, func(host string, _ *resolved) bool { return !used.Has(host) })
	var hosts []string
	for host, r := range n.of {
		if which(r) {
			r.tried = true
			hosts = append(hosts, host)
		}
	}
	n.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(resolveAtOnce)
	for _, host := range hosts {
		group.Go(func() error {
			n.one(ctx, host)
			return nil
		})
	}
	_ = group.Wait()
}

// one resolves a name, and tells the services that use it if the answer has changed, or is the first that is good.
func (n *names) one(ctx context.Context, host string) {
	asking, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := n.lookup(asking, "ip", host)
	if err != nil || len(found) == 0 {
		if ctx.Err() == nil {
			metricResolveFailures.Inc()
			log.FromContext(ctx).V(1).Info("Can't resolve the name of an external address; its last addresses stay", "name", host, "reason", errorText(err))
		}
		return
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)
	n.mu.Lock()
	r := n.of[host]
	if r == nil || r.known && slices.Equal(r.last, found) {
		n.mu.Unlock()
		return
	}
	r.last, r.known = found, true
	var users []types.NamespacedName
	for user, hosts := range n.uses {
		if slices.Contains(hosts, host) {
			users = append(users, user)
		}
	}
	n.mu.Unlock()
	n.changed(ctx, users)
}

func errorText(err error) string {
	if err == nil {
		return "it has no addresses"
	}
	return err.Error()
}
