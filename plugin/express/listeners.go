package express

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"
)

var log = clog.NewWithPlugin("clusterset")

// Plan has the addresses at which an instance of CoreDNS wants express paths. Each instance has its own Plan; the sockets outlive it.
type Plan struct {
	mu      sync.Mutex
	targets map[string]*Answers // by address
	on      map[string]bool     // whether Attach succeeded, once that is known
	used    []*target
	// before is the UDPDecorateWriterFunc that each block with clusterset had before Decorate, nil for none.
	before map[*dnsserver.Config]DecorateFunc
}

// DecorateFunc is the type of dnsserver.Config.UDPDecorateWriterFunc.
type DecorateFunc = func(*dnsserver.Server) dns.DecorateWriter

type planKey struct{}

func newPlan() *Plan {
	return &Plan{targets: map[string]*Answers{}, on: map[string]bool{}, before: map[*dnsserver.Config]DecorateFunc{}}
}

// PlanOf returns the plan of the Corefile that c reads.
func PlanOf(c *caddy.Controller) *Plan {
	if p, ok := c.Get(planKey{}).(*Plan); ok {
		return p
	}
	p := newPlan()
	c.Set(planKey{}, p)
	retireFirst(c, p)
	// On SIGTERM the sockets answer as long as CoreDNS's own do.
	c.OnFinalShutdown(func() error {
		all.release(func(l *listener) bool { return l.target.Load().plan != p })
		return nil
	})
	return p
}

// Decorate sets f as the UDPDecorateWriterFunc of a block with clusterset. For each socket CoreDNS calls the one of the last block at its
// address.
func (p *Plan) Decorate(config *dnsserver.Config, f DecorateFunc) {
	p.before[config] = config.UDPDecorateWriterFunc
	config.UDPDecorateWriterFunc = f
}

// Writer returns the writer that a server would have without the express path: that of the block, or else that of another block at the
// address. Otherwise a shed plugin in the other block would have no effect.
func (p *Plan) Writer(s *dnsserver.Server, config *dnsserver.Config, others []*dnsserver.Config) dns.DecorateWriter {
	if f := p.before[config]; f != nil {
		return f(s)
	}
	for _, c := range slices.Backward(at(others, s.Addr[len("dns://"):])) {
		f := c.UDPDecorateWriterFunc
		if c.Handler("clusterset") != nil {
			f = p.before[c]
		}
		if f != nil {
			return f(s)
		}
	}
	return nil
}

// Want plans an express path at an address. Call it before caddy hands the running instance's sockets to the new one, because it bounds
// their reads.
func (p *Plan) Want(addr string, a *Answers) {
	boundReads(addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets[addr] = a
}

func (p *Plan) wants(addr string) *Answers {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.targets[addr]
}

// target is the running server that gets the packets of a listener.
type target struct {
	plan     *Plan
	answers  *Answers
	server   *dnsserver.Server
	decorate dns.DecorateWriter // of the server's writers, nil for none
	metrics  *metrics.Metrics   // nil if the block has none
	inChain  atomic.Int64       // queries that its plugin chain is processing
}

// listeners are the listeners of the process, by address. A reload keeps the sockets and changes the target.
type listeners struct {
	mu     sync.Mutex
	byAddr map[string]*listener
}

var all = &listeners{byAddr: map[string]*listener{}}

// listener is the sockets of one address.
type listener struct {
	addr   string
	target atomic.Pointer[target]
	sockets
}

// Attach makes a server that is about to read the target of its address's sockets, and opens them if necessary. It reports whether there is
// an express path. It is called for each of CoreDNS's own sockets, which are bound by then. If the system refuses the express sockets,
// Attach logs that, and CoreDNS's own sockets serve.
func (p *Plan) Attach(addr string, own int, s *dnsserver.Server, decorate dns.DecorateWriter, m *metrics.Metrics) (on bool) {
	answers := p.wants(addr)
	if answers == nil {
		return false
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if on, known := p.on[addr]; known {
		return on
	}
	t := &target{plan: p, answers: answers, server: s, decorate: decorate, metrics: m}
	err := all.attach(addr, own, t)
	p.on[addr] = err == nil
	p.used = append(p.used, t)
	if err != nil {
		log.Warningf("express: off at %s: %v", s.Addr, err)
		return false
	}
	log.Infof("express: on at %s", s.Addr)
	return true
}

// attach sets t as the target of the sockets at an address.
func (ls *listeners) attach(addr string, own int, t *target) error {
	if l := ls.byAddr[addr]; l != nil {
		l.target.Store(t)
		l.steer(own)
		return nil
	}
	l := &listener{addr: addr}
	l.target.Store(t)
	if err := l.open(own); err != nil {
		return err
	}
	ls.byAddr[addr] = l
	return nil
}

// enter returns the listener's target for a query that goes to its plugin chain. The caller must call leave.
func (l *listener) enter() *target {
	for {
		t := l.target.Load()
		t.inChain.Add(1)
		if l.target.Load() == t { // otherwise t's instance may already have found no query in progress
			return t
		}
		t.leave()
	}
}

func (t *target) leave() { t.inChain.Add(-1) }

// release closes the listeners that aren't kept, and returns when they have answered their remaining packets.
func (ls *listeners) release(keep func(*listener) bool) {
	var closed sync.WaitGroup
	ls.mu.Lock()
	for addr, l := range ls.byAddr {
		if !keep(l) {
			delete(ls.byAddr, addr)
			closed.Go(l.close)
		}
	}
	ls.mu.Unlock()
	closed.Wait()
}

// wanted reports whether a running instance has a plan for the listener's address.
func wanted(l *listener) bool {
	for _, instance := range caddy.Instances() {
		if p := planOf(instance); p != nil && p.wants(l.addr) != nil {
			return true
		}
	}
	return false
}
