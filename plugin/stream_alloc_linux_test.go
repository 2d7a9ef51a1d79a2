//go:build !race

package clusterset

import (
	"io"
	"testing"

	"github.com/miekg/dns"
)

// No query on an open connection allocates, whether it comes alone or with others.
func TestExpressStreamAllocatesNothing(t *testing.T) {
	c := newFuzzPlugin("clusterset.local.", "global.")
	c.index.Put(manyObjects(2)...)
	c.index.Publish()
	e := newExpressCase(t, c, "loadbalance")
	s := newStreamCase(t, e, nil)
	conn := s.express.dial(t)
	defer conn.Close()
	var stream []byte
	for _, name := range []string{"vip.ns.svc.clusterset.local.", "HL.ns.svc.clusterset.local.", "none.ns.svc.clusterset.local.", "many.ns.svc.clusterset.local."} {
		packed, _ := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		stream = append(stream, framed(packed)...)
	}
	packed, _ := new(dns.Msg).SetQuestion("_http._tcp.many.ns.svc.clusterset.local.", dns.TypeSRV).Pack()
	stream = append(stream, framed(packed)...)
	size := len(converse(t, s.express, stream, nil))
	replies, before := make([]byte, size), expressed(s.server)
	const runs = 2000
	allocs := testing.AllocsPerRun(runs, func() {
		if _, err := conn.Write(stream); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, replies); err != nil {
			t.Fatal(err)
		}
	})
	if n := expressed(s.server) - before; allocs != 0 || n != 5*(runs+1) {
		t.Errorf("%v allocations for 5 queries; the express path answered %v of %d", allocs, n, 5*(runs+1))
	}
}
