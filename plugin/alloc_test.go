package clusterset

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// newTestPlugin returns a plugin with one MCS and one Global zone that answers from the objects.
func newTestPlugin(tb testing.TB, objects ...index.Object) *ClusterSet {
	tb.Helper()
	zs := zones{newZone("clusterset.local.", index.MCS), newZone("svc.global.", index.Global)}
	zs.sort()
	c := &ClusterSet{zones: zs, ttl: defaultTTL, index: index.New(index.Options{LongestZone: zs.longest()}), tiers: newTierCounters()}
	c.index.Put(objects...)
	c.index.Publish()
	return c
}

// headless returns a headless service with n endpoints in one cluster.
func headless(name string, n int) []index.Object {
	slice := &index.EndpointSlice{
		Namespace: "ns", Name: name + "-1", Service: index.NewServiceKey("ns", name),
		Group: index.Group{Cluster: "c1", Ports: []index.Port{{Name: "http", Number: 8080}}},
	}
	for i := range n {
		slice.Endpoints = append(slice.Endpoints, index.Endpoint{
			Addr: netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}), Hostname: fmt.Sprintf("pod-%d", i), Ready: true,
		})
	}
	return []index.Object{&index.ServiceImport{Service: slice.Service, Headless: true}, slice}
}

func vip(name string, ips ...string) *index.ServiceImport {
	o := &index.ServiceImport{Service: index.NewServiceKey("ns", name), Ports: []index.Port{{Name: "http", Number: 80}}}
	for _, ip := range ips {
		o.IPs = append(o.IPs, netip.MustParseAddr(ip))
	}
	return o
}

// discard is a response writer that keeps the last message and allocates nothing. The client uses TCP, where all answers fit,
// unless remote is set.
type discard struct {
	test.ResponseWriter
	remote  net.Addr
	msg     *dns.Msg
	written int
}

var tcpClient, udpClient net.Addr = &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1)}

func (d *discard) RemoteAddr() net.Addr {
	if d.remote != nil {
		return d.remote
	}
	return tcpClient
}

func (d *discard) WriteMsg(m *dns.Msg) error {
	d.msg = m
	d.written++
	return nil
}

// A reply takes one allocation for one record, two for up to 23 and three for more, no matter how many services exist. An SRV reply that
// points to endpoints takes one more for their names, and a SOA one for its record.
func TestServeDNSAllocations(t *testing.T) {
	objects := []index.Object{vip("web", "10.1.0.1"), vip("six", "fd00::1")}
	for _, n := range []int{1, 10, 100} {
		objects = append(objects, headless(fmt.Sprintf("hl%d", n), n)...)
	}
	for i := range 1000 {
		objects = append(objects, vip(fmt.Sprintf("other%d", i), "10.2.0.1"))
	}
	c := newTestPlugin(t, objects...)
	tests := []struct {
		name    string
		qtype   uint16
		rcode   int
		answers int
		max     float64
	}{
		{"web.ns.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess, 1, 1},
		{"six.ns.svc.clusterset.local.", dns.TypeAAAA, dns.RcodeSuccess, 1, 1},
		{"hl1.ns.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess, 1, 1},
		{"pod-7.c1.hl10.ns.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess, 1, 1},
		{"hl10.ns.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess, 10, 2},
		{"hl100.ns.svc.clusterset.local.", dns.TypeA, dns.RcodeSuccess, 100, 3},
		{"hl100.ns.svc.global.", dns.TypeA, dns.RcodeSuccess, 100, 3},
		{"c1.hl100.ns.svc.global.", dns.TypeA, dns.RcodeSuccess, 100, 3},
		{"_http._tcp.web.ns.svc.clusterset.local.", dns.TypeSRV, dns.RcodeSuccess, 1, 3},
		{"web.ns.svc.clusterset.local.", dns.TypeSRV, dns.RcodeSuccess, 1, 3},
		{"_http._tcp.hl1.ns.svc.clusterset.local.", dns.TypeSRV, dns.RcodeSuccess, 1, 3},
		{"_http._tcp.hl10.ns.svc.clusterset.local.", dns.TypeSRV, dns.RcodeSuccess, 10, 3},
		{"_http._tcp.hl100.ns.svc.clusterset.local.", dns.TypeSRV, dns.RcodeSuccess, 100, 4},
		{"nope.ns.svc.clusterset.local.", dns.TypeA, dns.RcodeNameError, 0, 1},
		{"web.ns.svc.clusterset.local.", dns.TypeAAAA, dns.RcodeSuccess, 0, 1},
		{"clusterset.local.", dns.TypeSOA, dns.RcodeSuccess, 1, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name+dns.TypeToString[tt.qtype], func(t *testing.T) {
			r := new(dns.Msg).SetQuestion(tt.name, tt.qtype)
			w := &discard{}
			allocs := testing.AllocsPerRun(200, func() { _, _ = c.ServeDNS(context.Background(), w, r) })
			if w.msg.Rcode != tt.rcode || len(w.msg.Answer) != tt.answers {
				t.Fatalf("got rcode %d and %d answers, want %d and %d", w.msg.Rcode, len(w.msg.Answer), tt.rcode, tt.answers)
			}
			if allocs > tt.max {
				t.Errorf("%.0f allocations, want at most %.0f", allocs, tt.max)
			}
		})
	}
}

// A reply and its records share no memory with another reply or with the snapshot, so a plugin that changes a reply changes no
// other.
func TestRepliesShareNothing(t *testing.T) {
	c := newTestPlugin(t, append(headless("hl", 3), vip("web", "10.1.0.1", "fd00::1"))...)
	for name, qtype := range map[string]uint16{
		"hl.ns.svc.clusterset.local.": dns.TypeA, "_http._tcp.hl.ns.svc.clusterset.local.": dns.TypeSRV, "web.ns.svc.clusterset.local.": dns.TypeSRV,
		"web.ns.svc.global.": dns.TypeAAAA, "nope.ns.svc.clusterset.local.": dns.TypeA, "clusterset.local.": dns.TypeNS, "dns-version.clusterset.local.": dns.TypeTXT,
	} {
		ask := func() *dns.Msg {
			w := &discard{}
			_, _ = c.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion(name, qtype))
			w.msg.Id = 0
			return w.msg
		}
		want := ask().String()
		vandalise(ask())
		if got := ask().String(); got != want {
			t.Errorf("%s: a changed reply changed the next:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func vandalise(m *dns.Msg) {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for i, rr := range section {
			rr.Header().Name, rr.Header().Ttl = "vandal.", 1
			switch rr := rr.(type) {
			case *dns.A:
				rr.A[0] = 99
			case *dns.AAAA:
				rr.AAAA[0] = 99
			case *dns.SRV:
				rr.Target = "vandal."
			case *dns.SOA:
				rr.Ns = "vandal."
			case *dns.TXT:
				rr.Txt[0] = "vandal"
			}
			section[i] = nil
		}
		_ = append(section, &dns.NULL{})
	}
	m.Question[0].Name = "vandal."
}
