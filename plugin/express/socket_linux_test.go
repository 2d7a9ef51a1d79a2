//go:build amd64 || arm64

package express

import (
	"context"
	"net"
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

func listenUDP(t *testing.T) net.PacketConn {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return pc
}

// serveUDP serves a target at a socket until the test ends or stop is called.
func serveUDP(t *testing.T, tt *target, pc net.PacketConn) (stop func()) {
	t.Helper()
	p := &Plan{targets: map[string]*target{tt.server.Addr: tt}}
	server := newServer(tt.server, p)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.ServePacket(pc)
	}()
	stop = func() {
		_ = server.Stop()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// A connection stays, too.
func TestAPanicIsCountedAndItsQueryGoesToTheChain(t *testing.T) {
	var queries atomic.Int32
	tt := testTarget(t, func() *index.Snapshot {
		if queries.Add(1)%2 == 1 {
			panic("at every other query")
		}
		return published()
	})
	pc := listenUDP(t)
	serveUDP(t, tt, pc)
	tcp, _ := serve(t, tt, nil)
	for network, addr := range map[string]string{"udp": pc.LocalAddr().String(), "tcp": tcp} {
		client := &dns.Client{Net: network, Timeout: time.Minute}
		conn, err := client.Dial(addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		before := testutil.ToFloat64(vars.Panic)
		for i, want := range []int{dns.RcodeRefused, dns.RcodeNameError, dns.RcodeRefused, dns.RcodeNameError} {
			m, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion("none.ns.svc."+testZone, dns.TypeA), conn)
			if err != nil || m.Rcode != want {
				t.Errorf("over %s query %d got %v, %v, want %s", network, i, m, err, dns.RcodeToString[want])
			}
		}
		if n := testutil.ToFloat64(vars.Panic) - before; n != 2 {
			t.Errorf("over %s %v panics were counted, want 2", network, n)
		}
	}
}

// A socket that is stopped answers what has arrived. It is closed when the queries in the chain have their replies. A64 of
// docs/spec/answers.md.
func TestASocketThatIsStoppedAnswersWhatHasArrived(t *testing.T) {
	inChain, release := make(chan struct{}, 1), make(chan struct{})
	tt := testTarget(t, nil)
	tt.answers.Snapshot = func() *index.Snapshot { // no snapshot: the chain answers
		inChain <- struct{}{}
		<-release
		return nil
	}
	pc := listenUDP(t)
	stop := serveUDP(t, tt, pc)
	const n = 50 // more than a batch
	replies := make(chan error, n)
	for i := range n {
		conn, err := net.Dial("udp", pc.LocalAddr().String())
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
		stop()
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
	if _, err := pc.WriteTo(nil, pc.LocalAddr()); err == nil {
		t.Error("the socket is still open")
	}
}

// A socket whose packets don't end can be stopped. A64 of docs/spec/answers.md.
func TestAStopDuringAFlood(t *testing.T) {
	tt, pc := testTarget(t, nil), listenUDP(t)
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
	stop := serveUDP(t, tt, pc)
	_, _ = client.Write(packet)
	<-flooded
	stop()
	if n := asked.Load(); n == most {
		t.Errorf("%d packets were answered before it stopped", n)
	}
	_ = client.Close()
}
