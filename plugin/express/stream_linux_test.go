//go:build amd64 || arm64

package express

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// Rules of docs/spec/answers.md: A62 for the order, A63 for when connections are closed, A64 for stops.

// published returns a snapshot without objects: every name of the zone is NXDOMAIN, by the express path.
func published() *index.Snapshot {
	x := index.New(index.Options{})
	x.Publish()
	return x.Snapshot()
}

// streamServer is the dns.Server of a target, as dnsserver.Server.Serve makes it, with or without the express path.
func streamServer(tt *target, l net.Listener, express bool) *dns.Server {
	if express {
		l = newListener(l, tt)
	}
	return &dns.Server{
		Listener: l, Net: "tcp", MaxTCPQueries: tt.server.MaxTCPQueries, ReadTimeout: tt.server.ReadTimeout,
		IdleTimeout: func() time.Duration { return tt.server.IdleTimeout },
		Handler:     dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) { tt.server.ServeDNS(context.Background(), w, r) }),
	}
}

// serverTLS returns a configuration with the certificate that Go's own tests have.
func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve serves a target on the express path, with TLS if there is a configuration, until the test ends or stop is called.
func serve(t *testing.T, tt *target, config *tls.Config) (addr string, stop func()) {
	t.Helper()
	l := listenTCP(t)
	addr = l.Addr().String()
	if config != nil {
		l = tls.NewListener(l, config)
	}
	server, done := streamServer(tt, l, true), make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ActivateAndServe()
	}()
	stop = func() {
		_ = server.Shutdown()
		<-done
	}
	t.Cleanup(stop)
	return addr, stop
}

func connect(t *testing.T, addr string, config *tls.Config) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if config != nil {
		return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // ourselves
	}
	return conn
}

// query returns a message with its length. The express path answers those for A, the chain those for NS with REFUSED.
func streamQuery(t *testing.T, id, qtype uint16) []byte {
	t.Helper()
	q := new(dns.Msg).SetQuestion("none.ns.svc."+testZone, qtype)
	q.Id = id
	return framed(t, q)
}

// framed returns a message with its length.
func framed(t *testing.T, q *dns.Msg) []byte {
	t.Helper()
	packed, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...) //nolint:gosec // short
}

// readReply reads a reply and returns its ID and rcode.
func readReply(conn io.Reader) (id uint16, rcode int, err error) {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return 0, 0, err
	}
	b := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, b); err != nil {
		return 0, 0, fmt.Errorf("within a reply: %w", err)
	}
	m := new(dns.Msg)
	return binary.BigEndian.Uint16(b), int(b[3] & 15), m.Unpack(b)
}

// script is what a client does, and how the test describes it.
type script struct {
	name string
	run  func(t *testing.T, conn net.Conn)
}

func send(t *testing.T, conn net.Conn, b []byte) {
	t.Helper()
	if _, err := conn.Write(b); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Fatal(err)
	}
}

func exchange(t *testing.T, conn net.Conn, qtype uint16) {
	t.Helper()
	send(t, conn, streamQuery(t, 1, qtype))
	if _, _, err := readReply(conn); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// trickle sends a message byte by byte, one each interval.
func trickle(t *testing.T, conn net.Conn, b []byte, interval time.Duration) {
	t.Helper()
	for i := range b {
		elapse(interval)
		send(t, conn, b[i:i+1])
	}
}

var idleScripts = []script{
	{"says nothing", func(*testing.T, net.Conn) {}},
	{"asks the express path", func(t *testing.T, conn net.Conn) { exchange(t, conn, dns.TypeA) }},
	{"asks the chain", func(t *testing.T, conn net.Conn) { exchange(t, conn, dns.TypeNS) }},
	{"asks both, with pauses", func(t *testing.T, conn net.Conn) {
		for i := range 20 {
			elapse(9 * time.Second / 5)
			exchange(t, conn, []uint16{dns.TypeA, dns.TypeNS, dns.TypeA}[i%3])
		}
	}},
	{"asks late", func(t *testing.T, conn net.Conn) {
		elapse(2900 * time.Millisecond)
		exchange(t, conn, dns.TypeA)
		elapse(9900 * time.Millisecond)
		exchange(t, conn, dns.TypeA)
	}},
	{"sends its first query slowly", func(t *testing.T, conn net.Conn) { trickle(t, conn, streamQuery(t, 1, dns.TypeA), time.Second) }},
	{"sends its second query slowly", func(t *testing.T, conn net.Conn) {
		exchange(t, conn, dns.TypeA)
		trickle(t, conn, streamQuery(t, 1, dns.TypeA), time.Second)
	}},
	{"sends one for the chain slowly", func(t *testing.T, conn net.Conn) {
		exchange(t, conn, dns.TypeNS)
		trickle(t, conn, streamQuery(t, 1, dns.TypeNS), time.Second)
	}},
	{"sends half of a long message", func(t *testing.T, conn net.Conn) {
		exchange(t, conn, dns.TypeA)
		send(t, conn, append([]byte{0xff, 0xff}, make([]byte, 3000)...))
	}},
}

// A connection is closed at the same moment as without the express path, whatever its client does.
func TestConnectionsAreClosedWhenTheChainClosesThem(t *testing.T) {
	for _, timeouts := range []struct{ read, idle time.Duration }{{3 * time.Second, 10 * time.Second}, {time.Minute, 10 * time.Second}} {
		for _, s := range idleScripts {
			t.Run(fmt.Sprintf("%s, %v", s.name, timeouts.read), func(t *testing.T) {
				var after [2]time.Duration
				for i := range after {
					synctest.Test(t, func(t *testing.T) {
						tt := testTarget(t, published)
						tt.server.ReadTimeout, tt.server.IdleTimeout = timeouts.read, timeouts.idle
						client, serverSide := net.Pipe()
						l := &oneListener{conn: serverSide, closed: make(chan struct{})}
						server := streamServer(tt, l, i == 0)
						go func() { _ = server.ActivateAndServe() }()
						began := time.Now()
						s.run(t, client)
						_, _ = io.Copy(io.Discard, client)
						after[i] = time.Since(began)
						_ = server.Shutdown()
					})
				}
				if diff := after[0] - after[1]; diff.Abs() > time.Millisecond {
					t.Errorf("closed after %v, without the express path after %v", after[0], after[1])
				}
			})
		}
	}
}

// oneListener accepts one connection.
type oneListener struct {
	conn   net.Conn
	closed chan struct{}
}

func (l *oneListener) Accept() (net.Conn, error) {
	if conn := l.conn; conn != nil {
		l.conn = nil
		return conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneListener) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return nil
}

func (*oneListener) Addr() net.Addr { return &net.TCPAddr{} }

// A connection asks as many queries as it may, whoever answers them.
func TestTheMostQueriesOfAConnection(t *testing.T) {
	for _, joined := range []bool{false, true} {
		tt := testTarget(t, published)
		tt.server.MaxTCPQueries = 7
		addr, _ := serve(t, tt, nil)
		conn := connect(t, addr, nil)
		var all []byte
		for i := range uint16(7) {
			all = append(all, streamQuery(t, i, []uint16{dns.TypeA, dns.TypeA, dns.TypeNS}[i%3])...)
		}
		if joined {
			send(t, conn, all)
		}
		size := len(all) / 7
		for i := range uint16(7) {
			if !joined {
				send(t, conn, all[:size])
				all = all[size:]
			}
			if id, _, err := readReply(conn); err != nil || id != i {
				t.Fatalf("joined %v: reply %d: ID %d, %v", joined, i, id, err)
			}
		}
		if _, _, err := readReply(conn); !errors.Is(err, io.EOF) {
			t.Errorf("joined %v: after the most queries: %v", joined, err)
		}
	}
}

// A server that stops answers the queries that have arrived, and closes the connection. That in the chain has its reply, too.
func TestAStopAnswersWhatHasArrived(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { stopWhileAsked(t, nil, 200) })
	// With TLS each query is a record, which is read alone, for half a second at most.
	t.Run("TLS", func(t *testing.T) { stopWhileAsked(t, serverTLS(t), 20) })
}

// stopWhileAsked stops a server while it answers a query and as many more arrive.
func stopWhileAsked(t *testing.T, config *tls.Config, more uint16) {
	t.Helper()
	inChain, release := make(chan struct{}), make(chan struct{})
	var hold atomic.Bool // the next query waits for the release
	tt := testTarget(t, func() *index.Snapshot {
		if hold.CompareAndSwap(true, false) {
			close(inChain)
			<-release
		}
		return published()
	})
	addr, stop := serve(t, tt, config)
	conn, waiting := connect(t, addr, config), connect(t, addr, config)
	for _, c := range []net.Conn{conn, waiting} { // both have been accepted
		exchange(t, c, dns.TypeA)
	}
	hold.Store(true) // the other queries arrive while the first is answered
	send(t, conn, streamQuery(t, 0, dns.TypeA))
	<-inChain
	for i := range more {
		send(t, conn, streamQuery(t, i+1, dns.TypeA))
	}
	stopped := make(chan struct{})
	go func() {
		stop()
		close(stopped)
	}()
	if _, _, err := readReply(waiting); !errors.Is(err, io.EOF) {
		t.Errorf("a connection without a query: %v, want its end", err)
	}
	close(release)
	for i := range more + 1 {
		if id, _, err := readReply(conn); err != nil || id != i {
			t.Fatalf("reply %d: ID %d, %v", i, id, err)
		}
	}
	if _, _, err := readReply(conn); !errors.Is(err, io.EOF) {
		t.Errorf("after the last reply: %v", err)
	}
	<-stopped
}

// oneBatch is how many queries longReplies returns.
const oneBatch = 80

// longReplies returns a target, and queries that are read at once, whose replies are longer than all buffers.
func longReplies(t *testing.T) (tt *target, queries []byte) {
	t.Helper()
	g := &index.GlobalService{Service: "many.ns", Headless: true, Groups: []index.Group{{Cluster: "c"}}}
	for i := range 1400 {
		g.Groups[0].Endpoints = append(g.Groups[0].Endpoints, index.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), Ready: true}) //nolint:gosec // of 10.0.0.0/16
	}
	x := index.New(index.Options{LongestZone: len(testZone)})
	x.Put(g)
	x.Publish()
	tt = testTarget(t, x.Snapshot)
	tt.answers.Count = func(*index.Set) {}
	for i := range uint16(oneBatch) {
		q := new(dns.Msg).SetQuestion("many.ns.svc."+testZone, dns.TypeA)
		q.Id = i
		queries = append(queries, framed(t, q)...)
	}
	return tt, queries
}

// A client that doesn't read for the write timeout gets half a reply. It gets nothing after that, also if the server stops then and the
// client reads again. A63.
func TestNothingFollowsAReplyThatWasCut(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { cutReply(t, nil) })
	t.Run("TLS", func(t *testing.T) { cutReply(t, serverTLS(t)) })
}

func cutReply(t *testing.T, config *tls.Config) {
	t.Helper()
	tt, queries := longReplies(t)
	tt.server.WriteTimeout = time.Second
	tcp := listenTCP(t)
	client := connect(t, tcp.Addr().String(), config)
	sent := make(chan error, 1)
	go func() { // also shakes hands
		_, err := client.Write(queries)
		sent <- err
	}()
	accepted, err := tcp.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := accepted.(*net.TCPConn).SetWriteBuffer(4096); err != nil {
		t.Fatal(err)
	}
	wire, l := &cutConn{Conn: accepted}, &oneListener{conn: accepted, closed: make(chan struct{})}
	if config != nil {
		l.conn = tls.Server(wire, config)
	}
	inner := newListener(l, tt)
	conn, err := inner.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the client reads nothing, and Read ends with %v", err)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	tt.server.WriteTimeout = time.Minute // for what is written now
	_ = inner.Close()
	closed := make(chan error, 1)
	go func() { closed <- conn.Close() }()
	replies := 0
	for ; err == nil; replies++ {
		_, _, err = readReply(client)
	}
	if !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("reply %d, which was cut: %v, want an unexpected end", replies, err)
	}
	_ = client.Close()
	<-closed
	if n := wire.after.Load(); n > 0 {
		t.Errorf("%d bytes follow those that were cut", n)
	}
}

// cutConn counts the bytes that are written after a write that failed.
type cutConn struct {
	net.Conn
	cut   atomic.Bool
	after atomic.Int64
}

// Write implements [net.Conn].
func (c *cutConn) Write(b []byte) (int, error) {
	cut := c.cut.Load()
	n, err := c.Conn.Write(b)
	if cut {
		c.after.Add(int64(n))
	}
	c.cut.Store(cut || err != nil)
	return n, err
}

// A server that stops also ends a connection whose client never pauses, after the few queries that have arrived.
func TestAStopEndsAConnectionThatNeverPauses(t *testing.T) {
	var client, conn net.Conn
	query, snapshot, asked := streamQuery(t, 1, dns.TypeA), published(), 0
	const stop, most = 100, 300
	tt := testTarget(t, func() *index.Snapshot {
		asked++
		if asked == stop {
			if err := conn.SetReadDeadline(time.Unix(1, 0)); err != nil { // as a dns.Server does
				t.Error(err)
			}
		}
		if asked < most { // the next query arrives before this one is answered
			send(t, client, query)
		}
		return snapshot
	})
	l := newListener(listenTCP(t), tt)
	client = connect(t, l.Addr().String(), nil)
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	send(t, client, query)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection ends with %v, want an error of its deadline", err)
	}
	_ = l.Close()
	_ = conn.Close()
	if after := asked - stop; after > 1+lastReads { // the batch after this one, and those of Close
		t.Errorf("%d queries were answered after the server stopped", after)
	}
}

// elapse waits in a bubble of testing/synctest, whose clock moves on at once.
func elapse(d time.Duration) { <-time.After(d) }
