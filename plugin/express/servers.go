package express

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"reflect"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metrics"
)

// servers is the context of an instance from the end of its Corefile until caddy calls MakeServers. caddy serves what that returns, and
// CoreDNS has no hook for sockets (docs/upstream.md): so each server gets a wrapper that is given them.
type servers struct {
	caddy.Context
	held *caddy.Context // the instance's
	plan *Plan
}

// MakeServers implements [caddy.Context].
func (c *servers) MakeServers() ([]caddy.Server, error) {
	*c.held = c.Context
	all, err := c.Context.MakeServers()
	for i := range all {
		switch s := all[i].(type) {
		case *dnsserver.Server:
			all[i] = newServer(s, c.plan)
		case *dnsserver.ServerTLS:
			config, err := field[*tls.Config](s, "tlsConfig")
			if err != nil {
				c.plan.hidden = err
				continue
			}
			all[i] = &tlsServer{stoppable{coreServer: s}, s, *config, c.plan}
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
	held, err := field[caddy.Context](instance, "context")
	p.hidden = err
	if err == nil && *held == context {
		*held = &servers{context, held, p}
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

// Stop implements [caddy.Stopper]. A dns.Server that stops reads no packet more: it gets those that have arrived before.
func (s *stoppable) Stop() error {
	s.mu.Lock()
	s.stopped = true
	given := s.given
	s.mu.Unlock()
	for _, c := range given {
		if socket, ok := c.(*socket); ok {
			socket.stop()
		}
	}
	err := s.coreServer.Stop()
	for _, c := range given {
		_ = c.Close() // an error says that it was closed before, as it usually was
	}
	return err
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
	if t := s.plan.target(s.core); t != nil {
		l = newListener(l, t)
	}
	return s.core.Serve(l)
}

// ServePacket implements [caddy.UDPServer]. CoreDNS's server gets the packets that the express path can't answer.
func (s *server) ServePacket(pc net.PacketConn) error {
	if t := s.plan.target(s.core); t != nil {
		socket, err := newSocket(pc.(*net.UDPConn), t) // as that of a server without proxyproto is
		if err != nil {
			return err
		}
		pc = socket
	}
	if !s.take(pc) {
		return nil
	}
	return s.core.ServePacket(pc)
}

// tlsServer is a server for TLS.
type tlsServer struct {
	stoppable
	core   *dnsserver.ServerTLS
	config *tls.Config
	plan   *Plan
}

// Serve implements [caddy.TCPServer]. With an express path it does the same as CoreDNS's server, but the connections decrypt first.
func (s *tlsServer) Serve(l net.Listener) error {
	if !s.take(l) {
		return nil
	}
	if t := s.plan.target(s.core.Server); t != nil {
		return s.core.Server.Serve(newListener(tls.NewListener(l, s.config), t))
	}
	return s.core.Serve(l)
}

// Listen returns a listener for TCP or TLS in place of l. Its connections answer the queries that they can, and leave the others to the
// dns.Server of s, which accepts them. m is the metrics of the server block, nil for none.
func Listen(l net.Listener, s *dnsserver.Server, a *Answers, m *metrics.Metrics) net.Listener {
	return newListener(l, &target{answers: a, server: s, metrics: m})
}

// field returns a field of a struct that isn't exported. It fails if there is no such field of that type.
func field[T, S any](of *S, name string) (*T, error) {
	f := reflect.ValueOf(of).Elem().FieldByName(name)
	if !f.IsValid() || f.Type() != reflect.TypeFor[T]() {
		return nil, fmt.Errorf("%v has no field %s of type %v", reflect.TypeFor[S](), name, reflect.TypeFor[T]())
	}
	return (*T)(f.Addr().UnsafePointer()), nil
}
