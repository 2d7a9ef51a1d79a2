package express

import (
	"errors"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

var log = clog.NewWithPlugin("clusterset")

// Plan has the addresses at which an instance of CoreDNS wants express paths, and the sockets that have one. Each instance has its own.
type Plan struct {
	mu       sync.Mutex
	instance *caddy.Instance
	targets  map[string]*target // by address, nil where the express path is off
	on       map[string]bool    // by address, whether its sockets have an express path, once that is known
	servers  []*dnsserver.Server
	packets  map[*dnsserver.Server]net.PacketConn
	sockets  []*socket
	stopped  bool
	// before is the UDPDecorateWriterFunc that each block with clusterset had before Decorate, nil for none.
	before map[*dnsserver.Config]DecorateFunc
}

// DecorateFunc is the type of dnsserver.Config.UDPDecorateWriterFunc.
type DecorateFunc = func(*dnsserver.Server) dns.DecorateWriter

type planKey struct{}

// PlanOf returns the plan of the Corefile that c reads.
func PlanOf(c *caddy.Controller) *Plan {
	if p, ok := c.Get(planKey{}).(*Plan); ok {
		return p
	}
	p := &Plan{
		targets: map[string]*target{}, on: map[string]bool{}, packets: map[*dnsserver.Server]net.PacketConn{},
		before: map[*dnsserver.Config]DecorateFunc{},
	}
	c.Set(planKey{}, p)
	wrapLater()
	c.OnStartup(func() error {
		i := slices.IndexFunc(caddy.Instances(), p.belongsTo)
		if i < 0 {
			return errors.New("express: the instance of this Corefile isn't known")
		}
		p.instance = caddy.Instances()[i]
		p.instance.SaveServer(lifecycle{plan: p}, nil)
		plans.Lock()
		defer plans.Unlock()
		plans.all = append(plans.all, p)
		return nil
	})
	return p
}

func (p *Plan) belongsTo(instance *caddy.Instance) bool {
	instance.StorageMu.RLock()
	defer instance.StorageMu.RUnlock()
	return instance.Storage[planKey{}] == p
}

// lifecycle is a server without sockets in the plan's instance: caddy starts it and stops it with the others.
type lifecycle struct {
	caddy.GracefulServer // nil: caddy calls no other method of a server without sockets
	plan                 *Plan
}

// Address implements [caddy.GracefulServer].
func (lifecycle) Address() string { return "the express path" }

// Serve implements [caddy.TCPServer]. The sockets of all servers are bound now.
func (l lifecycle) Serve(net.Listener) error {
	l.plan.show()
	return nil
}

// ServePacket implements [caddy.UDPServer].
func (lifecycle) ServePacket(net.PacketConn) error { return nil }

// Stop implements [caddy.Stopper].
func (l lifecycle) Stop() error {
	l.plan.stop()
	return nil
}

// plans are those of all instances that run or start. shown is the one whose state the gauges show.
var plans struct {
	sync.Mutex
	all   []*Plan
	shown *Plan
}

// show makes the gauges show this plan from now on: it has the sockets.
func (p *Plan) show() {
	plans.Lock()
	defer plans.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return
	}
	plans.shown = p
	showNone()
	for addr := range p.targets {
		p.showOne(addr)
	}
}

func showNone() {
	enabled.Reset()
	zonesEnabled.Reset()
}

func (p *Plan) showOne(addr string) {
	enabled.WithLabelValues(addr).Set(0)
	zonesEnabled.DeletePartialMatch(prometheus.Labels{"server": addr})
	if p.on[addr] {
		enabled.WithLabelValues(addr).Set(1)
		for _, zone := range p.targets[addr].answers.names() {
			zonesEnabled.WithLabelValues(addr, zone).Set(1)
		}
	}
}

// stop ends the plan, after the queries that are being answered.
func (p *Plan) stop() {
	plans.Lock()
	plans.all = slices.DeleteFunc(plans.all, func(other *Plan) bool { return other == p })
	if plans.shown == p {
		plans.shown = nil
		showNone()
	}
	plans.Unlock()
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range p.sockets {
		wg.Go(s.stop)
	}
	wg.Wait()
}

// CloseAbandoned closes the sockets of instances that couldn't start. caddy leaves them open, where nobody reads them but the kernel may
// choose them for a part of all queries. Call it after a reload that failed.
func CloseAbandoned() {
	plans.Lock()
	defer plans.Unlock()
	plans.all = slices.DeleteFunc(plans.all, func(p *Plan) bool {
		if slices.Contains(caddy.Instances(), p.instance) {
			return false
		}
		servers := p.instance.Servers()
		for i := range servers {
			if l := field[net.Listener](&servers[i], "listener"); l != nil && *l != nil {
				_ = (*l).Close()
			}
			if pc := field[net.PacketConn](&servers[i], "packet"); pc != nil && *pc != nil {
				_ = (*pc).Close()
			}
		}
		return true
	})
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
	for _, c := range slices.Backward(at(others, s.Addr)) {
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

// Want plans an express path at an address, or none if a is nil. m is the block's metrics, nil for none.
func (p *Plan) Want(addr string, a *Answers, m *metrics.Metrics) {
	p.targets[addr] = nil
	switch {
	case a == nil:
	case len(p.servers) == 0:
		log.Warningf("express: off at %s: %v", addr, errHidden)
	default:
		p.targets[addr] = &target{answers: a, metrics: m}
	}
}

// target is the server that a socket belongs to.
type target struct {
	answers  *Answers
	server   *dnsserver.Server
	decorate dns.DecorateWriter // of the server's writers for UDP, nil for none
	metrics  *metrics.Metrics   // nil if the block has none
}

// Serve answers queries at the UDP socket of a server that is about to read it, until the server stops. Then it closes the socket. If there
// is no express path, Serve returns at once, and the server reads the socket itself. The log has the reason, once for all sockets at an
// address.
func (p *Plan) Serve(s *dnsserver.Server, decorate dns.DecorateWriter) {
	t := p.targets[s.Addr]
	if t == nil {
		return
	}
	if socket := p.take(&target{answers: t.answers, server: s, decorate: decorate, metrics: t.metrics}); socket != nil {
		socket.serve()
	}
}

// take prepares the socket of a server for the express path. It returns nil if that isn't possible.
func (p *Plan) take(t *target) *socket {
	p.mu.Lock()
	udp, ok := p.packets[t.server].(*net.UDPConn)
	p.mu.Unlock()
	err := errHidden
	var s *socket
	if ok {
		s, err = newSocket(udp, t, p.atAddress(t.server.Addr))
	}
	p.learn(t.server.Addr, err)
	if err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped { // before it began
		_ = udp.Close()
		return nil
	}
	p.sockets = append(p.sockets, s)
	return s
}

var errHidden = errors.New("this version of caddy doesn't show what it serves")

// learn notes whether sockets at an address have an express path: no if one of them has none.
func (p *Plan) learn(addr string, err error) {
	plans.Lock()
	defer plans.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if before, known := p.on[addr]; known && (!before || err == nil) {
		return
	}
	p.on[addr] = err == nil
	if err != nil {
		log.Warningf("express: off at %s: %v", addr, err)
	} else {
		log.Infof("express: on at %s for %s", addr, strings.Join(p.targets[addr].answers.names(), " "))
	}
	if plans.shown == p {
		p.showOne(addr)
	}
}
