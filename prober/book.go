package prober

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/verdict"
)

// How often a cluster's report is read (D43).
const (
	readEvery   = 10 * time.Minute
	readUnknown = 10 * time.Second // and doubling, until it states beacons
	readFailing = 2 * time.Second
	readSeldom  = time.Minute
	hubTimeout  = 5 * time.Second
)

// book has the addresses of the other clusters' beacons, which it reads from their reports on the hub.
type book struct {
	options Options

	mu     sync.Mutex
	of     map[string]*entry
	ours   []netip.Prefix
	avoid  []netip.Addr
	wanted chan struct{} // what is never dialled is to be looked at, and reports that are due to be read
	deaf   time.Time     // when the hub last didn't answer
}

// entry is what is known of one cluster.
type entry struct {
	theirs []netip.Prefix
	apart  bool             // it is in another network: only in theirs its beacons may be
	told   []netip.AddrPort // as stated, checked only for their form
	odd    int              // how many more were stated
	use    []netip.AddrPort // those that may be dialled, the next one first
	read   time.Time        // when the report was last read; zero: never
	pause  time.Duration    // until it is read again while no beacon answers that stays
	due    bool
}

func newBook(o Options) *book {
	return &book{options: o, of: map[string]*entry{}, wanted: make(chan struct{}, 1)}
}

// know adds addresses that an agent before this one stored. It dialled them, so they count as those in use until set looks: they are stored
// again before that.
func (b *book) know(cluster string, addresses []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	told, _ := beacon.Parse(addresses)
	b.of[cluster] = &entry{told: told, use: slices.Clone(told)}
}

// set makes the clusters given the ones whose beacons are known, and returns those that can be dialled, and why the others can't.
func (b *book) set(own *clustersetv1alpha1.MemberCluster, others map[string]*clustersetv1alpha1.MemberCluster) (measured []string, without map[string]verdict.Reason) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name := range b.of {
		if others[name] == nil {
			delete(b.of, name)
		}
	}
	b.ours = api.Networks(own.Spec.CIDRs)
	without = map[string]verdict.Reason{}
	now := time.Now()
	for name, m := range others {
		e := b.of[name]
		if e == nil {
			e = &entry{}
			b.of[name] = e
		}
		apart := m.Apart(own)
		e.due = e.due || e.apart != apart // the report has other addresses for it
		if e.apart = apart; apart {
			e.theirs = api.Networks(m.Spec.ExternalCIDRs)
		} else {
			e.theirs = api.Networks(m.Spec.CIDRs)
		}
		b.choose(e)
		again := readEvery
		if len(e.told) == 0 {
			again = max(e.pause, readUnknown)
		}
		e.due = e.due || e.read.IsZero() || now.Sub(e.read) >= again
		switch {
		case len(e.use) > 0:
			measured = append(measured, name)
		case len(e.told)+e.odd > 0:
			without[name] = verdict.NotAllowed
		default:
			without[name] = verdict.NoBeacon
		}
	}
	b.want() // also if no report is due: what is never dialled may have become known
	return measured, without
}

// choose brings what may be dialled up to date, in the order that it has.
func (b *book) choose(e *entry) {
	allowed := func(a netip.AddrPort) bool {
		return (!e.apart || len(e.theirs) > 0) && beacon.Allowed(a.Addr(), e.theirs, b.ours, b.avoid)
	}
	e.use = slices.DeleteFunc(e.use, func(a netip.AddrPort) bool { return !slices.Contains(e.told, a) || !allowed(a) })
	for _, a := range e.told {
		if allowed(a) && !slices.Contains(e.use, a) {
			e.use = append(e.use, a)
		}
	}
}

// first returns the address to dial next.
func (b *book) first(cluster string) (netip.AddrPort, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.of[cluster]; e != nil && len(e.use) > 0 {
		return e.use[0], true
	}
	return netip.AddrPort{}, false
}

// tried records how a dial ended: an address that fails, or whose agent is leaving, becomes the last, and one that stays the first. ask means
// that the report may know better ones.
func (b *book) tried(cluster string, at netip.AddrPort, stays, ask bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.of[cluster]
	if e == nil {
		return
	}
	if i := slices.Index(e.use, at); i >= 0 {
		switch {
		case stays:
			copy(e.use[1:i+1], e.use[:i])
			e.use[0] = at
		case i == 0:
			e.use = append(e.use[1:], at)
		}
	}
	if stays {
		e.pause = 0
	} else if ask && time.Since(e.read) >= max(e.pause, readFailing) {
		e.due, e.pause = true, min(max(2*e.pause, 2*readFailing), readSeldom)
		b.want()
	}
}

// stated returns a cluster's addresses that are dialled, sorted, and how many others it states.
func (b *book) stated(cluster string) (all []string, ignored int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.of[cluster]; e != nil {
		for _, a := range e.use {
			all = append(all, a.String())
		}
		ignored = len(e.told) - len(e.use) + e.odd
	}
	slices.Sort(all)
	return all, ignored
}

func (b *book) want() {
	select {
	case b.wanted <- struct{}{}:
	default:
	}
}

// run reads reports, one at a time.
func (b *book) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.wanted:
		}
		b.look(ctx)
		for _, cluster := range b.due() {
			b.readReport(ctx, cluster)
		}
	}
}

// look finds out what is never dialled.
func (b *book) look(ctx context.Context) {
	avoid := b.options.Avoid(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.avoid = avoid
}

func (b *book) due() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.deaf) < hubTimeout {
		return nil
	}
	for name, e := range b.of {
		if e.due {
			all = append(all, name)
		}
	}
	return all
}

// readReport reads which beacons a cluster has. What it doesn't say stays as it was.
func (b *book) readReport(ctx context.Context, cluster string) {
	b.mu.Lock()
	deaf := time.Since(b.deaf) < hubTimeout
	b.mu.Unlock()
	if deaf || ctx.Err() != nil {
		return
	}
	reading, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	report := &clustersetv1alpha1.MemberReport{}
	err := b.options.Hub.Get(reading, client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName}, report)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		b.deaf = time.Now()
		logf.FromContext(ctx).V(1).Info("Can't read which beacons a cluster has", "cluster", cluster, "reason", err.Error())
		return
	}
	e := b.of[cluster]
	if e == nil {
		return
	}
	e.due, e.read = false, time.Now()
	switch all, odd := beacon.Parse(report.Spec.BeaconServices); {
	case report.Spec.Beacons == nil: // nothing is said
	case b.options.Services && len(all) > 0 && !e.apart:
		e.told, e.odd = all, odd
	default:
		e.told, e.odd = beacon.Parse(report.Spec.Beacons)
	}
	if len(e.told) == 0 {
		e.pause = min(max(2*e.pause, 2*readUnknown), readEvery)
	} else {
		e.pause = min(e.pause, readSeldom)
	}
	b.choose(e)
}
