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
	a.Bufsize = dns.MaxMsgSize - 1
	if err := a.Prepare(); err != nil {
		t.Fatal(err)
	}
	return &target{plan: p, answers: a, server: server}
}

// freeAddr returns an address that nothing is bound to.
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

// An address can't be bound: nothing is left of the attempt, and it isn't repeated for each of CoreDNS's sockets.
func TestSocketsThatCannotBeBound(t *testing.T) {
	const addr = "192.0.2.1:53" // no address of this machine (RFC 5737)
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
