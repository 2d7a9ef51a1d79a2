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

// Plan is where an instance of CoreDNS wants express paths. It is the instance's own; the sockets outlive it.
type Plan struct {
	mu      sync.Mutex
	targets map[string]*Answers // by address
	on      map[string]bool     // whether it came about, once that is known
	used    []*target
	// before is the UDPDecorateWriterFunc that each block with clusterset had before ours, nil for none.
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
	// On SIGTERM the sockets answer until CoreDNS's own stop too.
	c.OnFinalShutdown(func() error {
		all.release(func(l *listener) bool { return l.target.Load().plan != p })
		return nil
	})
	return p
}

// Decorate makes f the UDPDecorateWriterFunc of a block with clusterset. CoreDNS calls one for each socket, that of the last block at its address.
func (p *Plan) Decorate(config *dnsserver.Config, f DecorateFunc) {
	p.before[config] = config.UDPDecorateWriterFunc
	config.UDPDecorateWriterFunc = f
}

// Writer returns how replies of a server are written without us: as the block has it, else as another at the address does. Else a shed there would
// do nothing for our sake.
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

// Want plans an express path at an address. It comes before caddy hands sockets from the running instance to the new one, whose reads it bounds.
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

// target is where the packets of a listener go: one running server.
type target struct {
	plan     *Plan
	answers  *Answers
	server   *dnsserver.Server
	decorate dns.DecorateWriter // of the server's writers, nil for none
	metrics  *metrics.Metrics   // nil where the block has none
	inChain  atomic.Int64       // queries that its plugin chain is at work on
}

// listeners are those of the process, by address: a reload leaves the sockets be and changes the target.
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

// Attach makes a server that is about to read the target of its address' sockets, or opens these, and says whether there is an express path. CoreDNS's
// own sockets, as many as the block has, are bound by then: Attach is called for each of them. Where the system refuses ours, the log says so, and CoreDNS's serve.
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

// attach makes t the target of the sockets at an address.
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

// enter returns the listener's target, for a query that goes to its plugin chain: leave follows.
func (l *listener) enter() *target {
	for {
		t := l.target.Load()
		t.inChain.Add(1)
		if l.target.Load() == t { // else the instance that t is of may have seen none at work already
			return t
		}
		t.leave()
	}
}

func (t *target) leave() { t.inChain.Add(-1) }

// release closes the listeners that are not to be kept, and returns when they have answered what they hold.
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
