package clusterset

import (
	"context"
	"testing"
	"time"

	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/plugin/express"
)

// Stale answers state the reason if the client supports EDNS, and their records have short TTLs. Rule A55 of
// docs/spec/answers.md.
func TestStaleAnswersSaySo(t *testing.T) {
	objects := append(headless("hl", 3), vip("web", "10.1.0.1", "fd00::1"))
	c := newTestPlugin(t)
	c.ttl = 600
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	c.index.Restore(objects, time.Unix(1, 0))
	for _, row := range []struct {
		name  string
		qtype uint16
		code  uint16
	}{
		{"web.ns.svc.clusterset.local.", dns.TypeA, dns.ExtendedErrorCodeStaleAnswer},
		{"web.ns.svc.clusterset.local.", dns.TypeSRV, dns.ExtendedErrorCodeStaleAnswer},
		{"_http._tcp.hl.ns.svc.clusterset.local.", dns.TypeSRV, dns.ExtendedErrorCodeStaleAnswer},
		{"web.ns.svc.clusterset.local.", dns.TypeMX, dns.ExtendedErrorCodeStaleAnswer}, // NODATA
		{"dns-version.clusterset.local.", dns.TypeTXT, dns.ExtendedErrorCodeStaleAnswer},
		{"clusterset.local.", dns.TypeSOA, dns.ExtendedErrorCodeStaleAnswer},
		{"web.ns.svc.global.", dns.TypeANY, dns.ExtendedErrorCodeStaleAnswer},
		{"nope.ns.svc.clusterset.local.", dns.TypeA, dns.ExtendedErrorCodeStaleNXDOMAINAnswer},
	} {
		for _, edns := range []bool{false, true} {
			r := new(dns.Msg).SetQuestion(row.name, row.qtype)
			if edns {
				r.SetEdns0(1232, true)
			}
			w := &discard{}
			if _, err := c.ServeDNS(context.Background(), w, r); err != nil {
				t.Fatal(err)
			}
			m := w.msg
			for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
				for _, rr := range section {
					if soa, ok := rr.(*dns.SOA); ok && soa.Minttl > staleTTL {
						t.Errorf("%s: a missing name may be kept for %d s", row.name, soa.Minttl)
					}
					if rr.Header().Ttl > staleTTL && rr.Header().Rrtype != dns.TypeOPT {
						t.Errorf("%s: TTL %d", row.name, rr.Header().Ttl)
					}
				}
			}
			opt := m.IsEdns0()
			if !edns {
				if opt != nil {
					t.Errorf("%s: EDNS for a client that speaks none", row.name)
				}
				continue
			}
			if opt == nil || len(opt.Option) != 1 || opt.Option[0].(*dns.EDNS0_EDE).InfoCode != row.code || opt.UDPSize() != 1232 || !opt.Do() {
				t.Errorf("%s: got %v, want extended error %d", row.name, opt, row.code)
			}
		}
	}
	if !c.Ready() {
		t.Error("not ready, though there are answers")
	}
	c.index.Publish()
	if m := ask(t, c, "clusterset.local.", dns.TypeSOA); m.Answer[0].Header().Ttl != 600 || m.Answer[0].(*dns.SOA).Minttl != 600 {
		t.Errorf("still stale: %v", m)
	}
}

// The extended error counts as a part of the reply. Rule A58 of docs/spec/answers.md.
func TestAStaleReplyIsNoLongerThanOthers(t *testing.T) {
	c := newFuzzPlugin("global.")
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	c.index.Restore(largest(true), time.Unix(1, 0))
	for _, size := range []uint16{512, 1232, 4096, 65535} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
			q := new(dns.Msg).SetQuestion("a.b.svc.global.", qtype).SetEdns0(size, false)
			w := &discard{remote: udpClient}
			if _, err := c.ServeDNS(context.Background(), request.NewScrubWriter(q, w), q); err != nil {
				t.Fatal(err)
			}
			packed, err := w.msg.Pack()
			if err != nil || len(packed) > min(int(size), express.MaxUDP) || !w.msg.Truncated || len(w.msg.IsEdns0().Option) != 1 {
				t.Errorf("%s, EDNS %d: %d bytes, %v; %v", dns.TypeToString[qtype], size, len(packed), err, w.msg.IsEdns0())
			}
		}
	}
}

// A secondary that transfers the zone from a stale server doesn't keep it for long.
func TestATransferOfAStaleZoneHasShortTTLs(t *testing.T) {
	c := newTestPlugin(t)
	c.ttl = 600
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	c.index.Restore(headless("hl", 3), time.Unix(1, 0))
	ch, err := c.Transfer("clusterset.local.", 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rrs := range ch {
		for _, rr := range rrs {
			n++
			if rr.Header().Ttl > staleTTL {
				t.Errorf("TTL of %s", rr)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d records", n)
	}
}
