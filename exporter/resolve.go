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

// names resolves the names of external addresses, and remembers the last good answers.
type names struct {
	lookup  func(ctx context.Context, network, host string) ([]netip.Addr, error)
	changed func(context.Context, []types.NamespacedName) // of services

	mu   sync.Mutex
	last map[string][]netip.Addr           // the last good answers, sorted; nil: there has been none
	uses map[types.NamespacedName][]string // the names of each service
	due  chan struct{}                     // a name is to be resolved for the first time
}

func newNames(lookup func(ctx context.Context, network, host string) ([]netip.Addr, error), changed func(context.Context, []types.NamespacedName)) *names {
	return &names{lookup: lookup, changed: changed, last: map[string][]netip.Addr{}, uses: map[types.NamespacedName][]string{}, due: make(chan struct{}, 1)}
}

// resolve returns a function for External.Resolve that notes which names a service uses. done is called when it has asked for all: the
// service doesn't use others any more.
func (n *names) resolve(user types.NamespacedName) (resolve func(host string) []netip.Addr, done func()) {
	var uses []string
	resolve = func(host string) []netip.Addr {
		n.mu.Lock()
		defer n.mu.Unlock()
		last, known := n.last[host]
		if !known {
			n.last[host] = nil
			signal(n.due)
		}
		uses = append(uses, host)
		n.uses[user] = append(n.uses[user], host) // the answer may come before done
		return last
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
			n.all(ctx, true)
		case <-n.due:
			n.all(ctx, false)
		}
	}
}

// all resolves all names, or those that never have been, and forgets those that nobody uses.
func (n *names) all(ctx context.Context, again bool) {
	n.mu.Lock()
	used := sets.New(slices.Concat(slices.Collect(maps.Values(n.uses))...)...)
	maps.DeleteFunc(n.last, func(host string, _ []netip.Addr) bool { return !used.Has(host) })
	var hosts []string
	for host, last := range n.last {
		if again || last == nil {
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

// one resolves a name, which is absolute: a search list could lead to another one that has addresses. If the answer is another than the last good
// one, the services that use it are reconciled.
func (n *names) one(ctx context.Context, host string) {
	asking, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := n.lookup(asking, "ip", host+".")
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
	n.mu.Lock()
	if last, used := n.last[host]; used && !slices.Equal(last, found) {
		n.last[host] = found
		for user, hosts := range n.uses {
			if slices.Contains(hosts, host) {
				users = append(users, user)
			}
		}
	}
	n.mu.Unlock()
	n.changed(ctx, users)
}
