package express

import (
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
}

type planKey struct{}

// PlanOf returns the plan of the Corefile that c reads.
func PlanOf(c *caddy.Controller) *Plan {
	if p, ok := c.Get(planKey{}).(*Plan); ok {
		return p
	}
	p := &Plan{targets: map[string]*Answers{}}
	c.Set(planKey{}, p)
	// After a reload, sockets that the new Corefile doesn't want go. On SIGTERM they answer until CoreDNS's own stop too.
	c.OnShutdown(func() error {
		all.release(wanted)
		return nil
	})
	c.OnFinalShutdown(func() error {
		all.release(func(l *listener) bool { return l.target.Load().plan != p })
		return nil
	})
	return p
}

// Want plans an express path at an address.
func (p *Plan) Want(addr string, a *Answers) {
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

// Attach makes a server that is about to read the target of its address' sockets, or opens these. CoreDNS's own sockets, as many as the block
// has, are bound by then.
func (p *Plan) Attach(addr string, own int, s *dnsserver.Server, decorate dns.DecorateWriter, m *metrics.Metrics) (on bool, err error) {
	answers := p.wants(addr)
	if answers == nil {
		return false, nil
	}
	t := &target{plan: p, answers: answers, server: s, decorate: decorate, metrics: m}
	all.mu.Lock()
	defer all.mu.Unlock()
	if l := all.byAddr[addr]; l != nil {
		if before := l.target.Load(); before.plan != p {
			l.target.Store(t)
			l.steer(own)
		}
		return true, nil
	}
	l := &listener{addr: addr}
	l.target.Store(t)
	if err := l.open(own); err != nil {
		return false, err
	}
	all.byAddr[addr] = l
	return true, nil
}

// release closes the listeners that are not to be kept.
func (ls *listeners) release(keep func(*listener) bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for addr, l := range ls.byAddr {
		if !keep(l) {
			delete(ls.byAddr, addr)
			l.close()
		}
	}
}

// wanted reports whether a running instance has a plan for the listener's address.
func wanted(l *listener) bool {
	for _, instance := range caddy.Instances() {
		instance.StorageMu.RLock()
		p, _ := instance.Storage[planKey{}].(*Plan)
		instance.StorageMu.RUnlock()
		if p != nil && p.wants(l.addr) != nil {
			return true
		}
	}
	return false
}
