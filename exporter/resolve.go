package exporter

import (
	"context"
	"errors"
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

// resolver resolves the names of external addresses, and remembers the last good answers.
type resolver struct {
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	changed func(context.Context, []types.NamespacedName) // of services

	mu   sync.Mutex
	last map[string][]netip.Addr           // the last good answers, sorted; nil: there has been none
	uses map[types.NamespacedName][]string // the names of each service
	due  chan struct{}                     // a name is to be resolved for the first time
}

func newResolver(lookup func(ctx context.Context, network, host string) ([]netip.Addr, error), changed func(context.Context, []types.NamespacedName)) *resolver {
	return &resolver{lookup: lookup, changed: changed, last: map[string][]netip.Addr{}, uses: map[types.NamespacedName][]string{}, due: make(chan struct{}, 1)}
}

// resolve returns a function for External.Resolve that notes which names a service uses. done is called when it has asked for all: the
// service doesn't use others any more.
func (r *resolver) resolve(user types.NamespacedName) (resolve func(host string) []netip.Addr, done func()) {
	var uses []string
	resolve = func(host string) []netip.Addr {
		r.mu.Lock()
		defer r.mu.Unlock()
		last, known := r.last[host]
		if !known {
			r.last[host] = nil
			signal(r.due)
		}
		uses = append(uses, host)
		r.uses[user] = append(r.uses[user], host) // the answer may come before done
		return last
	}
	return resolve, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.uses[user] = uses; len(uses) == 0 {
			delete(r.uses, user)
		}
	}
}

// run resolves the names until ctx ends: new ones at once, and all again and again.
func (r *resolver) run(ctx context.Context) error {
	tick := time.NewTicker(resolveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.all(ctx, true)
		case <-r.due:
			r.all(ctx, false)
		}
	}
}

// all resolves all names, or those that never have been, and forgets those that nobody uses.
func (r *resolver) all(ctx context.Context, again bool) {
	r.mu.Lock()
	used := sets.New(slices.Concat(slices.Collect(maps.Values(r.uses))...)...)
	maps.DeleteFunc(r.last, func(host string, _ []netip.Addr) bool { return !used.Has(host) })
	var hosts []string
	for host, last := range r.last {
		if again || last == nil {
			hosts = append(hosts, host)
		}
	}
	r.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(resolveAtOnce)
	for _, host := range hosts {
		group.Go(func() error {
			r.one(ctx, host)
			return nil
		})
	}
	_ = group.Wait()
}

// one resolves a name, which is absolute: a search list could lead to another one that has addresses. If the answer is another than the last good
// one, the services that use it are reconciled.
func (r *resolver) one(ctx context.Context, host string) {
	asking, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := r.lookup(asking, "ip", host+".")
	if err == nil && len(found) == 0 {
		err = errors.New("it has no addresses")
	}
	if err != nil {
		if ctx.Err() == nil {
			metricResolveFailures.Inc()
			log.FromContext(ctx).V(1).Info("Can't resolve the name of an external address; its last addresses stay", "name", host, "reason", err.Error())
		}
		return
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	found = slices.Compact(found)

	var users []types.NamespacedName
	r.mu.Lock()
	if last, used := r.last[host]; used && !slices.Equal(last, found) {
		r.last[host] = found
		for user, hosts := range r.uses {
			if slices.Contains(hosts, host) {
				users = append(users, user)
			}
		}
	}
	r.mu.Unlock()
	r.changed(ctx, users)
}
