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
			all[i] = &server{Server: s, plan: c.plan}
			c.plan.servers = append(c.plan.servers, s)
		case *dnsserver.ServerTLS:
			all[i] = &tlsServer{ServerTLS: s, plan: c.plan}
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

// sockets are those that a server was given. CoreDNS can't stop a server that doesn't serve yet (docs/upstream.md): it would begin a moment
// later, read a share of the queries, and answer them from the old Corefile for ever. So its sockets are closed, too.
type sockets struct {
	mu      sync.Mutex
	stopped bool
	given   []io.Closer
}

// take returns whether the server may serve c. After the server was stopped it may not, and take closes c.
func (s *sockets) take(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		_ = c.Close()
		return false
	}
	s.given = append(s.given, c)
	return true
}

func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, c := range s.given {
		_ = c.Close() // an error says that it was closed before, as it usually was
	}
}

// server is a server for UDP and TCP.
type server struct {
	*dnsserver.Server
	plan    *Plan
	sockets sockets
}

// Stop implements [caddy.Stopper].
func (s *server) Stop() error {
	defer s.sockets.close()
	return s.Server.Stop()
}

// Serve implements [caddy.TCPServer].
func (s *server) Serve(l net.Listener) error {
	if !s.sockets.take(l) {
		return nil
	}
	return s.Server.Serve(s.plan.listen(s.Server, l))
}

// ServePacket implements [caddy.UDPServer].
func (s *server) ServePacket(pc net.PacketConn) error {
	if !s.sockets.take(pc) {
		return nil
	}
	s.plan.mu.Lock()
	s.plan.packets[s.Server] = pc
	s.plan.mu.Unlock()
	return s.Server.ServePacket(pc)
}

// tlsServer is a server for TLS.
type tlsServer struct {
	*dnsserver.ServerTLS
	plan    *Plan
	sockets sockets
}

// Stop implements [caddy.Stopper].
func (s *tlsServer) Stop() error {
	defer s.sockets.close()
	return s.ServerTLS.Stop()
}

// Serve implements [caddy.TCPServer]. With an express path it does the same as CoreDNS's server, but the connections decrypt first.
func (s *tlsServer) Serve(l net.Listener) error {
	if !s.sockets.take(l) {
		return nil
	}
	if s.plan.targets[s.Addr] == nil {
		return s.ServerTLS.Serve(l)
	}
	config := field[*tls.Config](s.ServerTLS, "tlsConfig")
	if config == nil || *config == nil {
		s.plan.learn(s.Addr, errHidden)
		return s.ServerTLS.Serve(l)
	}
	s.plan.learn(s.Addr, nil)
	return s.Server.Serve(s.plan.listen(s.Server, tls.NewListener(l, *config)))
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
