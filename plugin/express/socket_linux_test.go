//go:build amd64 || arm64

package express

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterset/clusterset/internal/index"
)

const testZone = "clusterset.local."

// testTarget is a server whose plugin chain answers every query with REFUSED.
func testTarget(t *testing.T, snapshot func() *index.Snapshot) *target {
	t.Helper()
	c := config(testZone, "53", "127.0.0.1")
	c.AddPlugin(func(plugin.Handler) plugin.Handler {
		return plugin.HandlerFunc(func(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { return dns.RcodeRefused, nil })
	})
	server, err := dnsserver.NewServer("dns://127.0.0.1:53", []*dnsserver.Config{c})
	if err != nil {
		t.Fatal(err)
	}
	a := &Answers{Zones: []Zone{{Name: testZone, Origin: testZone, NameServer: "ns.dns." + testZone, Mailbox: "hostmaster." + testZone}}, Snapshot: snapshot}
	a.Imitate = (&Block{Configs: []*dnsserver.Config{c}}).Imitates()
	if err := a.Prepare(); err != nil {
		t.Fatal(err)
	}
	return &target{answers: a, server: server}
}

// testSocket serves a target at a new socket until the test ends.
func testSocket(t *testing.T, tt *target) *socket {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := newSocket(pc.(*net.UDPConn), tt, 1)
	if err != nil {
		t.Fatal(err)
	}
	go s.serve()
	t.Cleanup(s.stop)
	return s
}

func TestAPanicIsCountedAndItsPacketGoesToTheChain(t *testing.T) {
	x := index.New(index.Options{})
	x.Publish()
	var queries atomic.Int32
	s := testSocket(t, testTarget(t, func() *index.Snapshot {
		if queries.Add(1)%2 == 1 {
			panic("at every other query")
		}
		return x.Snapshot()
	}))
	before := testutil.ToFloat64(vars.Panic)
	for i, want := range []int{dns.RcodeRefused, dns.RcodeNameError, dns.RcodeRefused, dns.RcodeNameError} {
		m, _, err := (&dns.Client{Timeout: time.Minute}).Exchange(new(dns.Msg).SetQuestion("none.ns.svc."+testZone, dns.TypeA), s.udp.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		if m.Rcode != want {
			t.Errorf("query %d got %s, want %s", i, dns.RcodeToString[m.Rcode], dns.RcodeToString[want])
		}
	}
	if n := testutil.ToFloat64(vars.Panic) - before; n != 2 {
		t.Errorf("%v panics were counted, want 2", n)
	}
}

// A socket that is stopped answers what has arrived. It is closed when the queries in the chain have their replies, and when the replies
// that the server's writer keeps are written.
func TestASocketThatIsStoppedAnswersWhatHasArrived(t *testing.T) {
	inChain, release := make(chan struct{}, 1), make(chan struct{})
	tt := testTarget(t, nil)
	tt.answers.Snapshot = func() *index.Snapshot { // no snapshot: the chain answers
		inChain <- struct{}{}
		<-release
		return nil
	}
	tt.decorate = func(w dns.Writer) dns.Writer { return laterWriter{w} }
	s := testSocket(t, tt)
	const n = 50 // more than a batch
	replies := make(chan error, n)
	for i := range n {
		conn, err := net.Dial("udp", s.udp.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		packet, err := new(dns.Msg).SetQuestion(testZone, dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		go func() {
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			_, err := conn.Read(make([]byte, 512))
			replies <- err
		}()
		if i == 0 {
			<-inChain // the others arrive while all readers but this one may read
		}
	}
	stopped := make(chan struct{})
	go func() {
		s.stop()
		close(stopped)
	}()
	for range n - 1 {
		go func() { <-inChain }()
	}
	close(release)
	for range n {
		if err := <-replies; err != nil {
			t.Fatal(err)
		}
	}
	<-stopped
	if _, err := s.udp.WriteTo(nil, s.udp.LocalAddr()); err == nil {
		t.Error("the socket is still open")
	}
}

// A socket whose packets don't end can be stopped, whether one goroutine reads it or several do. A64 of docs/spec/answers.md.
func TestAStopDuringAFlood(t *testing.T) {
	for _, atAddress := range []int{1, runtime.GOMAXPROCS(0)} {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		tt := testTarget(t, nil)
		s, err := newSocket(pc.(*net.UDPConn), tt, atAddress)
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("udp", pc.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		packet, err := new(dns.Msg).SetQuestion("none.ns.svc."+testZone, dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		const many, most = 100, 200_000
		var asked atomic.Int32
		snapshot, flooded := published(), make(chan struct{})
		tt.answers.Snapshot = func() *index.Snapshot {
			n := asked.Add(1)
			if n == many {
				close(flooded)
			}
			if n < most { // the next packet arrives before this one is answered
				_, _ = client.Write(packet)
			}
			return snapshot
		}
		go s.serve()
		_, _ = client.Write(packet)
		<-flooded
		s.stop()
		if n := asked.Load(); n == most {
			t.Errorf("%d readers: %d packets were answered before the socket stopped", len(s.readers), n)
		}
		_ = client.Close()
	}
}

// laterWriter writes replies later, as shed does.
type laterWriter struct{ dns.Writer }

func (w laterWriter) Write(b []byte) (int, error) {
	go func() { _, _ = w.Writer.Write(b) }()
	return len(b), nil
}
