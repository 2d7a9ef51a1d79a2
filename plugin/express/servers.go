package express

import (
	"crypto/tls"
	"io"
	"net"
	"reflect"
	"slices"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metrics"
)

// servers is the context of an instance from the end of its Corefile until caddy calls MakeServers. caddy serves what that returns, and
// CoreDNS has no hook for connections (docs/upstream.md): so each server gets a wrapper that is given its sockets.
type servers struct {
	caddy.Context
	instance *caddy.Instance
	plan     *Plan
}

// MakeServers implements [caddy.Context].
func (c *servers) MakeServers() ([]caddy.Server, error) {
	*field[caddy.Context](c.instance, "context") = c.Context
	all, err := c.Context.MakeServers()
	for i := range all {
		switch s := all[i].(type) {
		case *dnsserver.Server:
			all[i] = newServer(s, c.plan)
			c.plan.servers = append(c.plan.servers, s)
		case *dnsserver.ServerTLS:
			all[i] = &tlsServer{stoppable{coreServer: s}, s, c.plan}
			c.plan.servers = append(c.plan.servers, s.Server)
		}
	}
	return all, err
}

// lastDirectives are those after which wrap is called.
var lastDirectives sync.Map

// wrapLater calls wrap when caddy has set up all directives. Until then plugins need CoreDNS's own context.
func wrapLater() {
	last := dnsserver.Directives[len(dnsserver.Directives)-1]
	if _, done := lastDirectives.LoadOrStore(last, true); done {
		return
	}
	caddy.RegisterParsingCallback("dns", last, func(context caddy.Context) error {
		for _, instance := range caddy.Instances() {
			if p, ok := instance.Storage[planKey{}].(*Plan); ok {
				p.wrap(instance, context)
			}
		}
		return nil
	})
}

// wrap replaces the context of an instance if it is this one.
func (p *Plan) wrap(instance *caddy.Instance, context caddy.Context) {
	if held := field[caddy.Context](instance, "context"); held != nil && *held == context {
		*held = &servers{context, instance, p}
	}
}

// stoppable is a server of CoreDNS that stays stopped. CoreDNS can't stop one that doesn't serve yet (docs/upstream.md): it would begin a
// moment later, read a share of the queries, and answer them from the old Corefile for ever. So the sockets that it was given are closed, too.
type stoppable struct {
	coreServer
	mu      sync.Mutex
	stopped bool
	given   []io.Closer
}

// coreServer is what caddy calls of CoreDNS's servers.
type coreServer interface {
	caddy.GracefulServer
	caddy.AfterStartup
}

// Stop implements [caddy.Stopper].
func (s *stoppable) Stop() error {
	defer s.close()
	return s.coreServer.Stop()
}

func (s *stoppable) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, c := range s.given {
		_ = c.Close() // an error says that it was closed before, as it usually was
	}
}

// take returns whether the server may serve c. After the server was stopped it may not, and take closes c.
func (s *stoppable) take(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		_ = c.Close()
		return false
	}
	s.given = append(s.given, c)
	return true
}

// server is a server for UDP and TCP.
type server struct {
	stoppable
	core *dnsserver.Server
	plan *Plan
}

func newServer(s *dnsserver.Server, p *Plan) *server {
	return &server{stoppable{coreServer: s}, s, p}
}

// Serve implements [caddy.TCPServer].
func (s *server) Serve(l net.Listener) error {
	if !s.take(l) {
		return nil
	}
	return s.core.Serve(s.plan.listen(s.core, l))
}

// ServePacket implements [caddy.UDPServer].
func (s *server) ServePacket(pc net.PacketConn) error {
	if !s.take(pc) {
		return nil
	}
	s.plan.mu.Lock()
	s.plan.packets[s.core] = pc
	s.plan.mu.Unlock()
	return s.core.ServePacket(pc)
}

// tlsServer is a server for TLS.
type tlsServer struct {
	stoppable
	core *dnsserver.ServerTLS
	plan *Plan
}

// Serve implements [caddy.TCPServer]. With an express path it does the same as CoreDNS's server, but the connections decrypt first.
func (s *tlsServer) Serve(l net.Listener) error {
	if !s.take(l) {
		return nil
	}
	if s.plan.targets[s.core.Addr] == nil {
		return s.core.Serve(l)
	}
	config := field[*tls.Config](s.core, "tlsConfig")
	if config == nil || *config == nil {
		s.plan.learn(s.core.Addr, errHidden)
		return s.core.Serve(l)
	}
	s.plan.learn(s.core.Addr, nil)
	return s.core.Server.Serve(s.plan.listen(s.core.Server, tls.NewListener(l, *config)))
}

// listen returns the listener of a server: l, or one with an express path.
func (p *Plan) listen(s *dnsserver.Server, l net.Listener) net.Listener {
	if t := p.targets[s.Addr]; t != nil {
		return Listen(l, s, t.answers, t.metrics)
	}
	return l
}

// Listen returns a listener for TCP or TLS in place of l. Its connections answer the queries that they can, and leave the others to the
// dns.Server of s, which accepts them. m is the metrics of the server block, nil for none.
func Listen(l net.Listener, s *dnsserver.Server, a *Answers, m *metrics.Metrics) net.Listener {
	return newListener(l, &target{answers: a, server: s, metrics: m})
}

// atAddress returns how many servers share an address.
func (p *Plan) atAddress(addr string) int {
	return len(slices.DeleteFunc(slices.Clone(p.servers), func(s *dnsserver.Server) bool { return s.Addr != addr }))
}

// field returns a field of a struct that isn't exported, or nil if there is no such field of that type.
func field[T, S any](of *S, name string) *T {
	if f := reflect.ValueOf(of).Elem().FieldByName(name); f.IsValid() && f.Type() == reflect.TypeFor[T]() {
		return (*T)(f.Addr().UnsafePointer())
	}
	return nil
}
