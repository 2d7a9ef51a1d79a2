package prober

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/verdict"
)

const (
	// beat is how often it is decided whom to dial and what that means.
	beat = 100 * time.Millisecond
	// lookAround is how often this cluster's copies of the MemberClusters are read, and what is never dialled.
	lookAround = 5 * time.Second
	// hubTimeout is how long the hub may take to answer. If it doesn't, it is left alone for as long.
	hubTimeout = 5 * time.Second
)

// Options configure a Prober. All but Services and Dial are required.
type Options struct {
	// Cluster is this member's name on the hub.
	Cluster string
	// Services makes ClusterIPs in front of beacons be dialled where there are any, instead of the beacons: what is measured is what is used.
	Services bool
	// Here reads this cluster's MemberClusters from a cache. Live is this cluster's API server, Hub the hub's.
	Here, Hub client.Reader
	Live      client.Client
	// Avoid returns addresses that are never dialled: the hub's and this cluster's API server's.
	Avoid func(context.Context) []netip.Addr
	// Dial asks a beacon. Default: beacon.Dial.
	Dial func(ctx context.Context, at netip.AddrPort, cluster string) (beacon.Answer, error)
}

// Prober dials the beacons of other clusters. It runs in the leading agent only.
type Prober struct {
	options  Options
	loaded   chan struct{}
	changed  chan event.GenericEvent
	verdicts atomic.Pointer[map[string]verdict.Verdict]

	// The rest belongs to the goroutine of Start. What takes time is a job of another, which ends with a function for this one.
	jobs    sync.WaitGroup
	ended   chan func()
	machine *verdict.Machine
	peers   map[string]*peer
	known   bool // whether peers has all clusters, not only those that an agent before stored
	ours    []netip.Prefix
	avoid   []netip.Addr
	looked  time.Time // when peers were last looked for
	looking bool
	reading bool      // whether a report is being read
	deaf    time.Time // when the hub last didn't answer
	record  record
}

// New returns a Prober.
func New(o Options) *Prober {
	if o.Dial == nil {
		o.Dial = beacon.Dial
	}
	registerMetrics()
	return &Prober{
		options: o, loaded: make(chan struct{}), changed: make(chan event.GenericEvent),
		ended: make(chan func()), machine: verdict.New(), peers: map[string]*peer{},
	}
}

// Loaded is closed once the verdicts of the agent that ran before are known. Until then Unreachable knows of none.
func (p *Prober) Loaded() <-chan struct{} { return p.loaded }

// Unreachable reports whether a cluster can't be reached.
func (p *Prober) Unreachable(cluster string) bool {
	all := p.verdicts.Load()
	return all != nil && (*all)[cluster].Reachable == verdict.False
}

// Changed has an event with the MemberCluster of each cluster for which Unreachable has changed. It has one reader.
func (p *Prober) Changed() <-chan event.GenericEvent { return p.changed }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*Prober) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (p *Prober) Start(ctx context.Context) error {
	ctx = logf.IntoContext(ctx, logf.FromContext(ctx).WithName("prober"))
	if !p.load(ctx) {
		return nil // it was stopped
	}
	defer p.jobs.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case then := <-p.ended:
			then()
		case <-tick.C:
			p.step(ctx, time.Now())
		}
		p.read(ctx, time.Now())
	}
}

// start runs a job beside the loop, which does what the job returns.
func (p *Prober) start(ctx context.Context, job func() (then func())) {
	p.jobs.Go(func() {
		then := job()
		select {
		case p.ended <- then:
		case <-ctx.Done():
		}
	})
}

func (p *Prober) step(ctx context.Context, now time.Time) {
	if !p.looking && now.Sub(p.looked) >= lookAround {
		p.looking, p.looked = true, now
		p.start(ctx, func() func() { return p.look(ctx) })
	}
	if !p.known {
		return
	}
	all, changed := p.machine.Decide(now)
	if changed {
		p.publish(ctx, all)
		p.record.behind = true
	}
	p.write(ctx, all, now)
	for _, cluster := range p.machine.Due(now) {
		p.dial(ctx, cluster, now)
	}
}

// look finds out which clusters there are, and what is never dialled.
func (p *Prober) look(ctx context.Context) func() {
	avoid := p.options.Avoid(ctx)
	var all clustersetv1alpha1.MemberClusterList
	err := p.options.Here.List(ctx, &all, client.UnsafeDisableDeepCopy)
	return func() {
		p.looking = false
		if err == nil { // else it looks again soon
			p.set(all.Items, avoid)
		}
	}
}

// set takes over which clusters there are.
func (p *Prober) set(members []clustersetv1alpha1.MemberCluster, avoid []netip.Addr) {
	all := make([]*clustersetv1alpha1.MemberCluster, len(members))
	for i := range members {
		all[i], _ = members[i].Sanitized()
	}
	here := slices.IndexFunc(all, func(m *clustersetv1alpha1.MemberCluster) bool { return m.Name == p.options.Cluster })
	if here < 0 {
		return // not yet a member, or nothing has been copied yet
	}
	own := all[here]
	p.ours, p.avoid = api.Networks(own.Spec.CIDRs), avoid
	peers, measured, without := map[string]*peer{}, []string{}, map[string]verdict.Reason{}
	for _, m := range all {
		if m == own || m.Left() || !communities.Share(own.Spec.Communities, m.Spec.Communities) {
			continue
		}
		e := p.peers[m.Name]
		if e == nil {
			e = &peer{}
		}
		peers[m.Name] = e
		if apart := m.Apart(own); e.apart != apart {
			e.apart, e.read = apart, time.Time{} // the report has other addresses for it
		}
		e.networks = api.Networks(m.Spec.CIDRs)
		if e.apart {
			e.networks = api.Networks(m.Spec.ExternalCIDRs)
		}
		e.choose(p.ours, avoid)
		switch {
		case len(e.allowed) > 0:
			measured = append(measured, m.Name)
		case len(e.stated)+e.odd > 0:
			without[m.Name] = verdict.NotAllowed
		default:
			without[m.Name] = verdict.NoBeacon
		}
	}
	p.peers, p.known = peers, true
	p.machine.Set(measured, without, time.Now())
}

// read reads the report of a cluster that is due, one at a time.
func (p *Prober) read(ctx context.Context, now time.Time) {
	if p.reading || now.Sub(p.deaf) < hubTimeout {
		return
	}
	for cluster, e := range p.peers {
		if !e.due(now) {
			continue
		}
		p.reading = true
		p.start(ctx, func() func() {
			report, err := p.reportOf(ctx, cluster)
			return func() {
				now := time.Now()
				p.reading = false
				if err != nil {
					p.deaf = now
					logf.FromContext(ctx).V(1).Info("Can't read which beacons a cluster has", "cluster", cluster, "reason", err.Error())
					return
				}
				e.learn(&report.Spec, p.options.Services, now)
				e.choose(p.ours, p.avoid)
			}
		})
		return
	}
}

// reportOf reads a report. It is empty if there is none.
func (p *Prober) reportOf(ctx context.Context, cluster string) (*clustersetv1alpha1.MemberReport, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	report := &clustersetv1alpha1.MemberReport{}
	err := p.options.Hub.Get(ctx, client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: clustersetv1alpha1.MemberReportName}, report)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("get MemberReport: %w", err)
	}
	return report, nil
}

func (p *Prober) dial(ctx context.Context, cluster string, began time.Time) {
	e := p.peers[cluster]
	at, ok := e.current()
	if !ok {
		p.machine.Done(cluster, began, began, 0, verdict.NoBeacon)
		return
	}
	p.start(ctx, func() func() {
		answer, err := p.options.Dial(ctx, at, cluster)
		ended := time.Now()
		return func() {
			if err == nil {
				roundTrips.WithLabelValues(cluster).Observe(answer.RoundTrip.Seconds())
			}
			p.machine.Done(cluster, began, ended, answer.RoundTrip, reasonOf(err))
			e.tried(at, err == nil && !answer.Leaving, began)
		}
	})
}

// reasonOf returns why a dial failed, empty if it succeeded.
func reasonOf(err error) verdict.Reason {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, beacon.ErrWrongCluster):
		return verdict.WrongCluster
	case errors.Is(err, beacon.ErrRefused):
		return verdict.Refused
	}
	return verdict.NoAnswer
}

// publish makes verdicts known.
func (p *Prober) publish(ctx context.Context, now map[string]verdict.Verdict) {
	var was map[string]verdict.Verdict
	if before := p.verdicts.Swap(&now); before != nil {
		was = *before
	}
	for cluster, before := range was {
		is, ok := now[cluster]
		if !ok {
			forgetMetrics(cluster)
		}
		if (is.Reachable == verdict.False) != (before.Reachable == verdict.False) {
			p.tell(ctx, cluster)
		}
	}
	for cluster, is := range now {
		if before, ok := was[cluster]; !ok || is != before {
			showMetrics(cluster, is)
		}
	}
}

// tell passes on that a cluster has changed. Whoever reads that may be slow.
func (p *Prober) tell(ctx context.Context, cluster string) {
	m := &clustersetv1alpha1.MemberCluster{}
	m.Name = cluster
	p.jobs.Go(func() {
		select {
		case p.changed <- event.GenericEvent{Object: m}:
		case <-ctx.Done():
		}
	})
}
