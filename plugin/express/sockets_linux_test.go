//go:build amd64 || arm64

package express

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/metrics/vars"
	"github.com/coredns/coredns/plugin/pkg/reuseport"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/sys/unix"

	"github.com/clusterset/clusterset/internal/index"
)

const testZone = "clusterset.local."

// testTarget is a server whose plugin chain answers every query with REFUSED.
func testTarget(t *testing.T, p *Plan, snapshot func() *index.Snapshot) *target {
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
	return &target{plan: p, answers: a, server: server}
}

// freeAddr returns an address that no socket is bound to.
func freeAddr(t *testing.T) string {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}

func TestAPanicIsCountedAndItsPacketGoesToTheChain(t *testing.T) {
	x := index.New(index.Options{})
	x.Publish()
	var queries atomic.Int32
	l := &listener{addr: freeAddr(t)}
	l.target.Store(testTarget(t, nil, func() *index.Snapshot {
		if queries.Add(1)%2 == 1 {
			panic("at every other query")
		}
		return x.Snapshot()
	}))
	if err := l.open(0); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	before := testutil.ToFloat64(vars.Panic)
	for i, want := range []int{dns.RcodeRefused, dns.RcodeNameError, dns.RcodeRefused, dns.RcodeNameError} {
		m, _, err := (&dns.Client{Timeout: time.Minute}).Exchange(new(dns.Msg).SetQuestion("none.ns.svc."+testZone, dns.TypeA), l.addr)
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

// If an address can't be bound, nothing is left of the attempt, and it isn't repeated for each of CoreDNS's sockets.
func TestSocketsThatCannotBeBound(t *testing.T) {
	const addr = "192.0.2.1:53" // not an address of this machine (RFC 5737)
	p := newPlan()
	tt := testTarget(t, p, nil)
	p.Want(addr, tt.answers)
	for range 2 {
		if p.Attach(addr, 2, tt.server, nil, nil) {
			t.Fatal("it says that it is on")
		}
	}
	if all.byAddr[addr] != nil {
		t.Error("the listener stays")
	}
	if on, known := p.on[addr]; on || !known {
		t.Errorf("on is %v, known %v", on, known)
	}
}

// A reload makes CoreDNS's own socket blocking for a moment. A reader that starts then and receives no packet must not keep its server from
// shutting down.
func TestAReadThatBlocksEnds(t *testing.T) {
	pc, err := reuseport.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, addr := pc.(*net.UDPConn), pc.LocalAddr().String()
	reads := make(chan struct{}, 1)
	started := make(chan struct{})
	server := &dns.Server{PacketConn: conn, NotifyStartedFunc: func() { close(started) }, MsgAcceptFunc: func(dns.Header) dns.MsgAcceptAction {
		reads <- struct{}{}
		return dns.MsgIgnore
	}}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	<-started

	l := &listener{addr: addr}
	l.target.Store(testTarget(t, nil, nil))
	if err := l.open(1); err != nil {
		t.Fatal(err)
	}
	defer l.close()

	setBlocking(t, conn, true)
	if err := attach(conn, 0, 1); err != nil { // one packet, after which the server's next read blocks
		t.Fatal(err)
	}
	if err := send(addr); err != nil {
		t.Fatal(err)
	}
	<-reads
	for range 50 { // the read may have timed out already
		if sleepsInTheKernel() {
			break
		}
		<-time.After(time.Millisecond)
	}
	if err := attach(conn, 1, len(l.conns)); err != nil {
		t.Fatal(err)
	}
	setBlocking(t, conn, false)

	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown() }()
	for _, c := range []chan error{stopped, ended} {
		select {
		case err := <-c:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the server is waiting for its reader, which sleeps in the kernel")
		}
	}
}

func setBlocking(t *testing.T, conn *net.UDPConn, blocking bool) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), !blocking) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sleepsInTheKernel reports whether a goroutine is in a receive system call.
func sleepsInTheKernel() bool {
	stacks := make([]byte, 1<<20)
	for stack := range bytes.SplitSeq(stacks[:runtime.Stack(stacks, true)], []byte("\n\n")) {
		if bytes.Contains(stack, []byte("[syscall")) && bytes.Contains(stack, []byte("syscall.recv")) {
			return true
		}
	}
	return false
}

// send sends a query to an address.
func send(addr string) error {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	b, err := new(dns.Msg).SetQuestion(testZone, dns.TypeA).Pack()
	if err != nil {
		return err
	}
	_, err = c.Write(b)
	return err
}
