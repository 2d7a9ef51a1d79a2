package express

import (
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"
)

var log = clog.NewWithPlugin("clusterset")

// Plan has the addresses at which an instance of CoreDNS wants express paths, and the sockets that have one. Each instance has its own.
type Plan struct {
	mu       sync.Mutex
	instance *caddy.Instance
	answers  map[string]*Answers // by address, nil where the express path is off
	on       map[string]bool     // by address, whether its sockets have an express path, once that is known
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
	p := &Plan{answers: map[string]*Answers{}, on: map[string]bool{}, before: map[*dnsserver.Config]DecorateFunc{}}
	c.Set(planKey{}, p)
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
	enabled.Reset()
	for addr := range p.answers {
		showOne(addr, p.on[addr])
	}
}

func showOne(addr string, on bool) {
	value := 0.0
	if on {
		value = 1
	}
	enabled.WithLabelValues("dns://" + addr).Set(value)
}

// stop ends the plan, after the queries that are being answered.
func (p *Plan) stop() {
	plans.Lock()
	plans.all = slices.DeleteFunc(plans.all, func(other *Plan) bool { return other == p })
	if plans.shown == p {
		plans.shown = nil
		enabled.Reset()
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
			for _, c := range []io.Closer{field[net.Listener](&servers[i], "listener"), field[net.PacketConn](&servers[i], "packet")} {
				if c != nil {
					_ = c.Close()
				}
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

// Want plans an express path at an address, or none if a is nil.
func (p *Plan) Want(addr string, a *Answers) { p.answers[addr] = a }

// target is the server that a socket belongs to.
type target struct {
	answers  *Answers
	server   *dnsserver.Server
	decorate dns.DecorateWriter // of the server's writers, nil for none
	metrics  *metrics.Metrics   // nil if the block has none
}

// Serve answers queries at the UDP socket of a server that is about to read it, until the server stops. Then it closes the socket. If there
// is no express path, Serve returns at once, and the server reads the socket itself. The log has the reason, once for all sockets at an
// address.
func (p *Plan) Serve(s *dnsserver.Server, decorate dns.DecorateWriter, m *metrics.Metrics) {
	addr := s.Addr[len("dns://"):]
	a := p.answers[addr]
	if a == nil {
		return
	}
	if socket := p.take(addr, &target{answers: a, server: s, decorate: decorate, metrics: m}); socket != nil {
		socket.serve()
	}
}

// take prepares the socket of a server for the express path. It returns nil if that isn't possible.
func (p *Plan) take(addr string, t *target) *socket {
	plans.Lock()
	defer plans.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	udp, shared, err := p.packetConn(t.server)
	var s *socket
	if err == nil {
		s, err = newSocket(udp, t, shared)
	}
	if before, known := p.on[addr]; !known || before && err != nil {
		p.on[addr] = err == nil
		if err != nil {
			log.Warningf("express: off at %s: %v", t.server.Addr, err)
		} else {
			log.Infof("express: on at %s", t.server.Addr)
		}
		if plans.shown == p {
			showOne(addr, p.on[addr])
		}
	}
	if err != nil {
		return nil
	}
	if p.stopped { // before it began
		_ = udp.Close()
		return nil
	}
	p.sockets = append(p.sockets, s)
	return s
}

// packetConn returns the socket that caddy bound for a server, or got from the instance before, and how many sockets its address has. caddy
// has it in a field that it doesn't export, and CoreDNS has no hook for reading packets (docs/upstream.md).
func (p *Plan) packetConn(s *dnsserver.Server) (udp *net.UDPConn, atAddress int, err error) {
	servers := p.instance.Servers()
	for i := range servers {
		server, _ := field[caddy.Server](&servers[i], "server").(*dnsserver.Server)
		if server != nil && server.Addr == s.Addr {
			atAddress++
		}
		if server == s {
			udp, _ = field[net.PacketConn](&servers[i], "packet").(*net.UDPConn)
		}
	}
	if udp == nil {
		err = errors.New("this version of caddy doesn't tell a server's socket")
	}
	return udp, atAddress, err
}

// field returns a field of a ServerListener that isn't exported, or T's zero value if there is no such field of that type.
func field[T any](l *caddy.ServerListener, name string) (value T) {
	if f := reflect.ValueOf(l).Elem().FieldByName(name); f.IsValid() && f.Type() == reflect.TypeFor[T]() {
		return *(*T)(f.Addr().UnsafePointer())
	}
	return value
}
