package exporter

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
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
	last  map[corev1.IPFamily][]netip.Addr // the last good answers, sorted
	tried bool
}

// lookups are what those of each family are called.
var lookups = map[corev1.IPFamily]string{corev1.IPv4Protocol: "ip4", corev1.IPv6Protocol: "ip6"}

func newNames(lookup func(ctx context.Context, network, host string) ([]netip.Addr, error), changed func(context.Context, []types.NamespacedName) bool) *names {
	return &names{lookup: lookup, changed: changed, of: map[string]*resolved{}, uses: map[types.NamespacedName][]string{}, due: make(chan struct{}, 1)}
}

// resolve returns a function for External.Resolve that notes which names a service uses. done is called when it has asked for all: the
// service doesn't use others any more.
func (n *names) resolve(user types.NamespacedName) (resolve func(host string) map[corev1.IPFamily][]netip.Addr, done func()) {
	var uses []string
	resolve = func(host string) map[corev1.IPFamily][]netip.Addr {
		n.mu.Lock()
		defer n.mu.Unlock()
		r := n.of[host]
		if r == nil {
			r = &resolved{last: map[corev1.IPFamily][]netip.Addr{}}
			n.of[host] = r
			signal(n.due)
		}
		uses = append(uses, host)
		n.uses[user] = append(n.uses[user], host) // the answer may come before done
		return maps.Clone(r.last)
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

// one resolves a name, and tells the services that use it if an answer has changed, or is the first that is good.
func (n *names) one(ctx context.Context, host string) {
	answers := n.ask(ctx, host)
	err := errors.Join(answers[0].err, answers[1].err)
	none := len(answers[0].found)+len(answers[1].found) == 0
	if err == nil && none {
		err = errors.New("it has no addresses")
	}
	if err != nil && ctx.Err() == nil {
		metricResolveFailures.Inc()
		log.FromContext(ctx).V(1).Info("Can't resolve the name of an external address; its last addresses stay", "name", host, "reason", err.Error())
	}
	if none {
		return
	}
	n.mu.Lock()
	changed := false
	if r := n.of[host]; r != nil {
		for i, family := range bothFamilies {
			if last, known := r.last[family]; answers[i].err == nil && (!known || !slices.Equal(last, answers[i].found)) {
				r.last[family], changed = answers[i].found, true
			}
		}
	}
	if !changed {
		n.mu.Unlock()
		return
	}
	var users []types.NamespacedName
	for user, hosts := range n.uses {
		if slices.Contains(hosts, host) {
			users = append(users, user)
		}
	}
	n.mu.Unlock()
	n.changed(ctx, users)
}

// answer is that to a lookup.
type answer struct {
	found []netip.Addr // sorted
	err   error
}

// ask looks up the addresses of each of bothFamilies. A lookup of both at once would hide that one of them fails.
func (n *names) ask(ctx context.Context, host string) (answers [2]answer) {
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	var group sync.WaitGroup
	for i, family := range bothFamilies {
		group.Go(func() { answers[i] = n.askFor(ctx, family, host) })
	}
	group.Wait()
	return answers
}

// askFor looks up the addresses of one family. That there are none isn't an error. The name is absolute: a search list could lead to another name that
// has some.
func (n *names) askFor(ctx context.Context, family corev1.IPFamily, host string) answer {
	found, err := n.lookup(ctx, lookups[family], host+".")
	var none *net.DNSError
	var others *net.AddrError // a file of hosts has the name, with addresses of the other family
	if errors.As(err, &none) && none.IsNotFound || errors.As(err, &others) {
		return answer{}
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return answer{slices.Compact(found), err}
}
