//go:build amd64 || arm64

package clusterset

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/plugin/express"
)

// streamCase is a server that is reached over TCP or TLS with and without the express path.
type streamCase struct {
	*expressCase
	express, plain streamAddr
}

type streamAddr struct {
	net.Addr
	tls bool
}

// newStreamCase serves a case at two listeners until the test ends. Both use TLS if there is a configuration for it.
func newStreamCase(tb testing.TB, e *expressCase, config *tls.Config) *streamCase {
	tb.Helper()
	c := &streamCase{expressCase: e}
	for _, with := range []bool{false, true} {
		l := listenTCP(tb)
		if config != nil {
			l = tls.NewListener(l, config)
		}
		addr := streamAddr{l.Addr(), config != nil}
		if with {
			c.express, l = addr, express.Listen(l, e.server, e.answers, nil)
		} else {
			c.plain = addr
		}
		serveStreams(tb, e.server, l)
	}
	return c
}

// testTLS returns a configuration with the certificate that Go's own tests have.
func testTLS() *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}
}

// streamConn is a connection over TCP or TLS.
type streamConn interface {
	net.Conn
	CloseWrite() error
}

func (a streamAddr) dial(tb testing.TB) streamConn {
	tb.Helper()
	conn, err := net.Dial("tcp", a.String())
	if err != nil {
		tb.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(soonInProcess)); err != nil {
		tb.Fatal(err)
	}
	if a.tls {
		client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // ourselves
		if err := client.Handshake(); err != nil {                        // An empty stream wouldn't start it.
			tb.Fatal(err)
		}
		return client
	}
	return conn.(*net.TCPConn)
}

func listenTCP(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// serveStreams does the same as dnsserver.Server.Serve, which can serve one listener only.
func serveStreams(tb testing.TB, s *dnsserver.Server, l net.Listener) {
	tb.Helper()
	server := &dns.Server{
		Listener: l, Net: "tcp", MaxTCPQueries: s.MaxTCPQueries, ReadTimeout: s.ReadTimeout, IdleTimeout: func() time.Duration { return s.IdleTimeout },
		Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
			ctx := context.WithValue(context.Background(), dnsserver.Key{}, s)
			s.ServeDNS(context.WithValue(ctx, dnsserver.LoopKey{}, 0), w, r)
		}),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ActivateAndServe()
	}()
	tb.Cleanup(func() {
		_ = server.Shutdown()
		<-done
	})
}

// converse sends a stream in pieces and returns all replies. The sizes of the pieces come from cuts, byte by byte and again from the start.
func converse(tb testing.TB, to streamAddr, stream, cuts []byte) []byte {
	tb.Helper()
	conn := to.dial(tb)
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		for i := 0; len(stream) > 0; i++ {
			n := len(stream)
			if len(cuts) > 0 {
				n = min(n, 1+int(cuts[i%len(cuts)]))
			}
			if _, err := conn.Write(stream[:n]); err != nil {
				sent <- err
				return
			}
			stream = stream[n:]
		}
		sent <- conn.CloseWrite()
	}()
	replies, err := io.ReadAll(conn)
	if err != nil {
		tb.Fatalf("after %d bytes: %v", len(replies), err)
	}
	if err := <-sent; err != nil {
		tb.Fatal(err)
	}
	return replies
}

// soonInProcess is far longer than an answer takes.
const soonInProcess = 2 * time.Minute

// messages splits a stream.
func messages(stream []byte) (all [][]byte) {
	for len(stream) >= 2 {
		size := min(len(stream), 2+int(binary.BigEndian.Uint16(stream)))
		all = append(all, stream[2:size])
		stream = stream[size:]
	}
	return all
}

// compare checks that the replies to a stream are the chain's, byte by byte and in the same order.
func (c *streamCase) compare(t *testing.T, stream, cuts []byte) {
	t.Helper()
	got, want := messages(converse(t, c.express, stream, cuts)), messages(converse(t, c.plain, stream, nil))
	if len(got) != len(want) {
		t.Errorf("cuts %v: %d replies, the chain sends %d, to %x", cuts, len(got), len(want), stream)
		return
	}
	for i := range got {
		got[i], want[i] = c.same(got[i]), c.same(want[i])
		if !bytes.Equal(got[i], want[i]) {
			a, b := new(dns.Msg), new(dns.Msg)
			t.Errorf("cuts %v, reply %d: express, then the chain (%v, %v):\n%x\n%x\n%s\n%s", cuts, i, a.Unpack(got[i]), b.Unpack(want[i]), got[i], want[i], a, b)
			return
		}
	}
}

// streamCases are those whose chain always answers alike, over TCP and TLS, and servers for the zones of the plugin kubernetes.
func streamCases(tb testing.TB) (cases []*streamCase) {
	config := testTLS()
	for i, e := range expressCases(tb) {
		if e.answers.MaxAnswers == 0 {
			cases = append(cases, newStreamCase(tb, e, []*tls.Config{nil, config}[i%2]))
		}
	}
	for i, e := range clusterCases(tb, 1) {
		cases = append(cases, newStreamCase(tb, e.expressCase, []*tls.Config{nil, config}[i%2]))
	}
	return cases
}

// framed puts a message's length in front of it.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...) //nolint:gosec // of a test
}

// randomStream has queries for the express path and for the chain by turns, broken messages, long ones, and perhaps half a message at its end.
func randomStream(random *rand.Rand, query func(*rand.Rand) *dns.Msg) (stream []byte) {
	for range 1 + random.IntN(40) {
		q := query(random)
		if opt := q.IsEdns0(); opt != nil {
			switch random.IntN(6) {
			case 0:
				addOption(q, random)
			case 1:
				opt.Option = append(opt.Option, &dns.EDNS0_PADDING{Padding: make([]byte, random.IntN(6000))})
			}
		}
		packet, err := q.Pack()
		if err != nil {
			continue
		}
		switch random.IntN(12) {
		case 0:
			packet[2+random.IntN(len(packet)-2)] ^= 1 << random.IntN(8)
		case 1:
			packet = packet[:random.IntN(len(packet))]
		}
		stream = append(stream, framed(packet)...)
	}
	if random.IntN(4) == 0 {
		stream = stream[:random.IntN(len(stream)+1)]
	}
	return stream
}

// FuzzExpressStream checks the rule of the express path over TCP and TLS, with messages that are cut and joined. Its seeds are others each time.
func FuzzExpressStream(f *testing.F) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)) //nolint:gosec // for messages
	f.Add([]byte(nil), []byte(nil), uint8(0))
	for i := range 500 {
		cuts := make([]byte, random.IntN(5))
		for i := range cuts {
			cuts[i] = byte(random.IntN(1 << random.IntN(9)))
		}
		query := []func(*rand.Rand) *dns.Msg{expressQuery, clusterMessage}[i%2]
		f.Add(randomStream(random, query), cuts, uint8(random.UintN(256))) //nolint:gosec // any
	}
	cases := streamCases(f)
	f.Fuzz(func(t *testing.T, stream, cuts []byte, which uint8) {
		if len(stream) > 1<<16 {
			return
		}
		cases[int(which)%len(cases)].compare(t, stream, cuts)
	})
}
