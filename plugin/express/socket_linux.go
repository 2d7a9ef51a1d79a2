//go:build linux && (amd64 || arm64)

package express

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"
)

// grace is how long a server that stops waits at most for its queries, as in dnsserver.Server.
const grace = 5 * time.Second

// lastReplies is how long a socket stays open at most for replies that wait in the plugin shed.
const lastReplies = time.Second

// socket is a UDP socket of CoreDNS that is read here.
type socket struct {
	udp     *net.UDPConn
	raw     syscall.RawConn
	target  *target
	readers []*conn
	stopped atomic.Bool
	ended   chan struct{}
	waiting atomic.Int64 // replies that the server's writer has but hasn't written
}

// newSocket prepares a socket, one of several at its address. It changes nothing that matters to a dns.Server.
func newSocket(udp *net.UDPConn, t *target, atAddress int) (*socket, error) {
	raw, err := udp.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{udp: udp, raw: raw, target: t, ended: make(chan struct{})}
	n := (runtime.GOMAXPROCS(0) + atAddress - 1) / atAddress
	for range n {
		c, err := newConn(s)
		if err != nil {
			return nil, err
		}
		c.alone = n == 1
		s.readers = append(s.readers, c)
	}
	return s, nil
}

// serve reads the socket until it is stopped, and closes it when the queries in the plugin chain have their replies.
func (s *socket) serve() {
	defer close(s.ended)
	var reading sync.WaitGroup
	for _, c := range s.readers {
		reading.Go(func() { s.read(c) })
	}
	reading.Wait()
	for end := time.Now().Add(lastReplies); s.waiting.Load() > 0 && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	s.close()
}

func (s *socket) close() { _ = s.udp.Close() }

// stop returns when serve has, after grace at most.
func (s *socket) stop() {
	s.stopped.Store(true)
	_ = s.udp.SetReadDeadline(time.Unix(1, 0))
	select {
	case <-s.ended:
	case <-time.After(grace): // a plugin that doesn't return
		s.close()
	}
}

// read runs one of the readers. Queries that aren't answered there go to the plugin chain, through a dns.Server like the one that CoreDNS
// creates (dnsserver.Server.ServePacket).
func (s *socket) read(c *conn) {
	server := &dns.Server{
		PacketConn: c, Net: "udp",
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			if from, ok := w.RemoteAddr().(*addr); ok {
				w = &client{w, from.UDPAddr}
			}
			ctx := context.WithValue(context.Background(), dnsserver.Key{}, s.target.server)
			ctx = context.WithValue(ctx, dnsserver.LoopKey{}, 0)
			s.target.server.ServeDNS(ctx, w, r)
		}),
		MsgAcceptFunc: accepts(s.target.server),
	}
	if s.target.decorate != nil {
		server.DecorateWriter = func(w dns.Writer) dns.Writer { return &entering{s.target.decorate(&leaving{w, s}), s} }
	}
	if err := server.ActivateAndServe(); err != nil && !s.stopped.Load() {
		log.Errorf("express: %s: %v", s.target.server.Addr, err)
	}
}

// client is a writer whose client has the type of address that plugins expect.
type client struct {
	dns.ResponseWriter
	from *net.UDPAddr
}

// RemoteAddr implements [dns.ResponseWriter].
func (c *client) RemoteAddr() net.Addr { return c.from }

// entering counts the replies that the server's writer gets, leaving those that it writes. The plugin shed writes them later.
type entering struct {
	dns.Writer
	socket *socket
}

// Write implements [dns.Writer].
func (w *entering) Write(b []byte) (int, error) {
	w.socket.waiting.Add(1)
	return w.Writer.Write(b)
}

type leaving struct {
	dns.Writer
	socket *socket
}

// Write implements [dns.Writer].
func (w *leaving) Write(b []byte) (int, error) {
	defer w.socket.waiting.Add(-1)
	return w.Writer.Write(b)
}
