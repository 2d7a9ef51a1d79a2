package prober

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/verdict"
)

const (
	// beat is how often it is decided whom to dial and what that means.
	beat = 100 * time.Millisecond
	// lookAround is how often this cluster's copies of the MemberClusters are read.
	lookAround = 2 * time.Second
	// explainEvery is how often verdicts are written if only their reasons change (D51).
	explainEvery = time.Minute
)

// Options configure a Prober. All but Services and Dial are required.
type Options struct {
	// Cluster is this member's name on the hub.
	Cluster string
	// Services makes ClusterIPs in front of beacons be dialled where there are any, instead of the beacons: what is measured is what is used.
	Services bool
	// Here reads this cluster's MemberClusters from a cache. Live and Writer are this cluster's API server, Hub the hub's.
	Here, Live, Hub client.Reader
	Writer          client.Writer
	// Avoid returns addresses that are never dialled: the hub's and this cluster's API server's.
	Avoid func(context.Context) []netip.Addr
	// Dial asks a beacon. Default: beacon.Dial.
	Dial func(ctx context.Context, at netip.AddrPort, cluster string) (beacon.Answer, error)
}

// Prober dials the beacons of other clusters. It runs in the leading agent only.
type Prober struct {
	options Options
	book    *book
	machine *verdict.Machine
	loaded  chan struct{}
	news    *news

	verdicts  atomic.Pointer[map[string]verdict.Verdict]
	asked     map[string]verdict.Verdict // those that were last to be written
	explained time.Time                  // when that was so only for their reasons
}

// New returns a Prober.
func New(o Options) *Prober {
	if o.Dial == nil {
		o.Dial = beacon.Dial
	}
	registerMetrics()
	return &Prober{options: o, book: newBook(o), machine: verdict.New(), loaded: make(chan struct{}), news: newNews()}
}

// Loaded is closed once the verdicts of the agent that ran before are known. Until then Unreachable knows of none.
func (p *Prober) Loaded() <-chan struct{} { return p.loaded }

// Unreachable reports whether a cluster can't be reached.
func (p *Prober) Unreachable(cluster string) bool {
	all := p.verdicts.Load()
	return all != nil && (*all)[cluster].Reachable == verdict.False
}

// Changed has an event with the MemberCluster of each cluster for which Unreachable has changed. It has one reader.
func (p *Prober) Changed() <-chan event.GenericEvent { return p.news.events }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Prober) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (p *Prober) Start(ctx context.Context) error {
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithName("prober"))
	if !p.load(ctx) {
		return nil // it was stopped
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	writes := make(chan struct{}, 1)
	writes <- struct{}{} // so that the age tells that an agent runs
	wg.Go(func() { p.news.run(ctx) })
	wg.Go(func() { p.write(ctx, writes) })
	wg.Go(func() { p.book.run(ctx) })
	p.dial(ctx, &wg, writes)
	return nil
}

// result is how a dial ended.
type result struct {
	cluster      string
	at           netip.AddrPort
	began, ended time.Time
	answer       beacon.Answer
	err          error
}

// dial dials and decides until ctx ends.
func (p *Prober) dial(ctx context.Context, wg *sync.WaitGroup, writes chan<- struct{}) {
	results := make(chan result)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-results:
			p.done(r)
			continue
		case <-tick.C:
		}
		now := time.Now()
		if now.Sub(looked) >= lookAround {
			looked = now
			p.look(ctx, now)
		}
		all := p.machine.Decide(now)
		p.publish(all)
		p.ask(all, now, writes)
		for _, cluster := range p.machine.Due(now) {
			at, ok := p.book.first(cluster)
			if !ok {
				p.machine.Done(cluster, now, now, 0, verdict.NoBeacon)
				continue
			}
			wg.Go(func() {
				answer, err := p.options.Dial(ctx, at, cluster)
				select {
				case results <- result{cluster, at, now, time.Now(), answer, err}:
				case <-ctx.Done():
				}
			})
		}
	}
}

func (p *Prober) done(r result) {
	why := verdict.Reason("")
	switch {
	case r.err == nil:
		roundTrips.WithLabelValues(r.cluster).Observe(r.answer.RoundTrip.Seconds())
	case errors.Is(r.err, beacon.ErrWrongCluster):
		why = verdict.WrongCluster
	case errors.Is(r.err, beacon.ErrRefused):
		why = verdict.Refused
	default:
		why = verdict.NoAnswer
	}
	p.machine.Done(r.cluster, r.began, r.ended, r.answer.RoundTrip, why)
	stays := r.err == nil && !r.answer.Leaving
	p.book.tried(r.cluster, r.at, stays, r.answer.Leaving || p.machine.Silent(r.cluster, r.ended) >= readFailing)
}

// look finds out which clusters there are, and what is known of their beacons.
func (p *Prober) look(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, time.Second/2)
	defer cancel()
	var all clustersetv1alpha1.MemberClusterList
	if err := p.options.Here.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		logf.FromContext(ctx).V(1).Info("Can't list the MemberClusters", "reason", err.Error())
		return
	}
	var own *clustersetv1alpha1.MemberCluster
	others := map[string]*clustersetv1alpha1.MemberCluster{}
	for i := range all.Items {
		usable, _ := all.Items[i].Sanitized()
		if usable.Name == p.options.Cluster {
			own = usable
		} else if !usable.Left() {
			others[usable.Name] = usable
		}
	}
	if own == nil {
		return // not yet a member, or nothing has been copied yet
	}
	maps.DeleteFunc(others, func(_ string, m *clustersetv1alpha1.MemberCluster) bool {
		return !communities.Share(own.Spec.Communities, m.Spec.Communities)
	})
	measured, without := p.book.set(own, others)
	p.machine.Set(measured, without, now)
}

// publish makes verdicts known.
func (p *Prober) publish(now map[string]verdict.Verdict) {
	was := map[string]verdict.Verdict{}
	if all := p.verdicts.Load(); all != nil {
		was = *all
	}
	p.verdicts.Store(&now)
	if maps.EqualFunc(was, now, verdict.Verdict.Same) {
		return
	}
	for cluster := range was {
		if _, ok := now[cluster]; !ok {
			forgetMetrics(cluster)
			if was[cluster].Reachable == verdict.False {
				p.news.add(cluster)
			}
		}
	}
	for cluster, v := range now {
		showMetrics(cluster, v)
		if (v.Reachable == verdict.False) != (was[cluster].Reachable == verdict.False) {
			p.news.add(cluster)
		}
	}
}

// ask asks for verdicts to be written if they have changed. Reasons alone can change with every dial, where addresses fail in different ways.
func (p *Prober) ask(all map[string]verdict.Verdict, now time.Time, writes chan<- struct{}) {
	if maps.EqualFunc(p.asked, all, verdict.Verdict.Same) {
		return
	}
	if maps.EqualFunc(p.asked, all, func(v, o verdict.Verdict) bool { v.Reason = o.Reason; return v.Same(o) }) {
		if now.Sub(p.explained) < explainEvery {
			return
		}
		p.explained = now
	}
	p.asked = all
	select {
	case writes <- struct{}{}:
	default: // one is due already, and will write the latest
	}
}

// news passes on which clusters have changed, each once, however slowly they are read.
type news struct {
	events chan event.GenericEvent
	more   chan struct{}
	mu     sync.Mutex
	of     map[string]bool
}

func newNews() *news {
	return &news{events: make(chan event.GenericEvent), more: make(chan struct{}, 1), of: map[string]bool{}}
}

func (n *news) add(cluster string) {
	n.mu.Lock()
	n.of[cluster] = true
	n.mu.Unlock()
	select {
	case n.more <- struct{}{}:
	default:
	}
}

func (n *news) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.more:
		}
		n.mu.Lock()
		of := n.of
		n.of = map[string]bool{}
		n.mu.Unlock()
		for cluster := range of {
			m := &clustersetv1alpha1.MemberCluster{}
			m.Name = cluster
			select {
			case <-ctx.Done():
				return
			case n.events <- event.GenericEvent{Object: m}:
			}
		}
	}
}

// load begins with the verdicts of the agent that ran before, and reports whether that is done. Those that are too old only say which
// clusters were reached (D51).
func (p *Prober) load(ctx context.Context) bool {
	for {
		stored, err := p.read(ctx)
		if err == nil {
			now := time.Now()
			fresh := now.Sub(stored.Stamp.Time).Abs() < maxAge
			for i := range stored.Clusters {
				c := &stored.Clusters[i]
				v := verdict.Verdict{Reachable: reachableOf(c.Reachable), Reason: verdict.Reason(c.Reason), Since: c.Since.Time, Reached: c.Reached}
				if !fresh {
					v = verdict.Verdict{Reason: verdict.NeverReached, Since: now, Reached: c.Reached}
				}
				p.machine.Know(c.Name, v, now)
				p.book.know(c.Name, c.Beacons)
			}
			all := p.machine.Decide(now)
			p.asked = all
			p.verdicts.Store(&all)
			for cluster, v := range all {
				showMetrics(cluster, v)
			}
			p.book.look(ctx)
			close(p.loaded)
			return true
		}
		logf.FromContext(ctx).Info("Waiting for this cluster's API server to say what could be reached before", "reason", err.Error())
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Second):
		}
	}
}
