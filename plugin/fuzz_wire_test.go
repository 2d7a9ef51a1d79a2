package clusterset

import (
	"context"
	"strings"
	"testing"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// nextPlugin answers REFUSED, so that its answers differ from clusterset's.
type nextPlugin struct{}

func (nextPlugin) Name() string { return "next" }

func (nextPlugin) ServeDNS(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
	return dns.RcodeRefused, nil
}

// FuzzWire sends packets. A valid query gets one complete answer to exactly that question, or no answer and an rcode for which CoreDNS
// writes one.
func FuzzWire(f *testing.F) {
	names := append(fuzzBases(), "a.b.svc", "_p7._tcp.a.b.svc", "c1.a.b.svc", "h1.c1.a.b.svc")
	for i, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSOA, dns.TypeNS, dns.TypeTXT, dns.TypeANY, dns.TypeAXFR, dns.TypeMX, dns.TypeOPT, 65280} {
		for _, zone := range []string{".Clusterset.local.", ".global."} {
			for _, name := range names {
				q := new(dns.Msg).SetQuestion(strings.TrimPrefix(name+zone, "."), qtype)
				if i%2 == 0 {
					q.SetEdns0(1232, true)
				}
				packed, _ := q.Pack()
				f.Add(packed, uint8(i)) //nolint:gosec // few types
			}
		}
	}
	addOddQueries(f)

	capped, through, unready := newFuzzPlugin("clusterset.local.", "svc.global."), newFuzzPlugin("clusterset.local.", "global."), newFuzzPlugin("global.")
	capped.maxAnswers = 1
	through.Fall, through.Next = fall.Root, nextPlugin{}
	unready.index = index.New(index.Options{})
	plugins := []*ClusterSet{newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local."), newFuzzPlugin("."), capped, through, unready}
	for _, c := range plugins {
		c.index.Put(largest(true)...)
	}
	f.Fuzz(func(t *testing.T, packet []byte, which uint8) {
		r := new(dns.Msg)
		if r.Unpack(packet) != nil || len(r.Question) == 0 {
			t.Skip("no query")
		}
		c := plugins[int(which)%len(plugins)]
		w, before := &discard{remote: udpClient}, r.String()
		rcode, err := c.ServeDNS(context.Background(), w, r)
		if r.String() != before {
			t.Errorf("the query, which others read too, was changed:\n%s\n%s", before, r)
		}
		switch w.written {
		case 0:
			if plugin.ClientWrite(rcode) {
				t.Errorf("nothing written and %s, %v: the client waits in vain for\n%s", dns.RcodeToString[rcode], err, r)
			}
		case 1:
			if !plugin.ClientWrite(rcode) {
				t.Errorf("an answer written and %s: CoreDNS writes a second one", dns.RcodeToString[rcode])
			}
			checkReply(t, c, r, w.msg)
		default:
			t.Errorf("%d answers to\n%s", w.written, r)
		}
	})
}

func addOddQueries(f *testing.F) {
	odd := new(dns.Msg).SetQuestion("vip.ns.svc.global.", dns.TypeA)
	add := func(change func(*dns.Msg)) {
		q := odd.Copy()
		change(q)
		packed, _ := q.Pack()
		for which := range uint8(5) {
			f.Add(packed, which)
		}
	}
	add(func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassCHAOS })
	add(func(q *dns.Msg) { q.Question[0].Qclass = dns.ClassANY })
	add(func(q *dns.Msg) {
		q.Question = append(q.Question, dns.Question{Name: "hl.ns.svc.global.", Qtype: 1, Qclass: 1})
	})
	add(func(q *dns.Msg) { q.Opcode, q.Response, q.Truncated = dns.OpcodeNotify, true, true })
	add(func(q *dns.Msg) { q.Opcode, q.RecursionDesired, q.CheckingDisabled = dns.OpcodeUpdate, false, true })
	add(func(q *dns.Msg) { q.Question[0].Name = "." })
	add(func(q *dns.Msg) { q.Question[0].Name = `vip\.ns.svc.global.` })
	add(func(q *dns.Msg) { q.Question[0].Name = strings.Repeat("x.", 123) + "global." })
	add(func(q *dns.Msg) { q.Question[0].Name, q.Question[0].Qtype = "HL.nS.sVc.GlObAl.", dns.TypeSRV })
	add(func(q *dns.Msg) { q.SetEdns0(0, false); q.IsEdns0().SetVersion(9) })
	add(func(q *dns.Msg) { q.SetTsig("key.", dns.HmacSHA256, 300, 1) })
}

func checkReply(t *testing.T, c *ClusterSet, r, m *dns.Msg) {
	t.Helper()
	q := r.Question[0]
	z := c.zones.match(strings.ToLower(q.Name))
	if z == nil || q.Qclass != dns.ClassINET {
		t.Fatalf("an answer to a question that isn't ours:\n%s", m)
	}
	size := sizeOf(&discard{remote: udpClient}, r)
	if built := len(m.Answer) + len(m.Ns) + len(m.Extra); built > size/sizeA+2 {
		t.Errorf("%d records were built for %d bytes", built, size)
	}
	truncated := m.Truncated
	packed, err := m.Pack()
	if err != nil {
		t.Fatalf("%v: the reply can't be sent:\n%s", err, m)
	}
	back := new(dns.Msg)
	if err := back.Unpack(packed); err != nil {
		t.Fatalf("%v: the reply can't be read:\n%s", err, m)
	}
	if back.Id != r.Id || !back.Response || back.Opcode != r.Opcode || len(back.Question) == 0 || back.Question[0] != q {
		t.Errorf("the reply is to another question:\n%s\n%s", r, back)
	}
	if back.Rcode == dns.RcodeServerFailure {
		if c.index.Snapshot() != nil || len(back.Answer) > 0 {
			t.Errorf("SERVFAIL:\n%s", back)
		}
		return
	}
	if !back.Authoritative {
		t.Errorf("not authoritative:\n%s", back)
	}
	targets, seen := map[string]bool{}, map[string]bool{}
	for _, rr := range back.Answer {
		if rr.Header().Name != q.Name {
			t.Errorf("the question is about %s, the answer about %s", q.Name, rr.Header().Name)
		}
		if seen[rr.String()] || rr.Header().Rrtype != q.Qtype && q.Qtype != dns.TypeANY {
			t.Errorf("%s is there twice, or is another type's", rr)
		}
		seen[rr.String()] = true
		switch rr := rr.(type) {
		case *dns.SRV:
			targets[strings.ToLower(rr.Target)] = true
		case *dns.NS:
			targets[strings.ToLower(rr.Ns)] = true
		}
	}
	if truncated {
		return // some of the targets' addresses are missing
	}
	checkSections(t, z, q, back, targets)
}

// checkSections expects either an answer or only a SOA, and additional addresses only for the answer's targets.
func checkSections(t *testing.T, z *zone, q dns.Question, m *dns.Msg, targets map[string]bool) {
	t.Helper()
	negative := len(m.Ns) == 1 && m.Ns[0].Header().Rrtype == dns.TypeSOA && strings.HasSuffix(q.Name, m.Ns[0].Header().Name) &&
		strings.ToLower(m.Ns[0].Header().Name) == z.name
	if len(m.Answer) > 0 && (len(m.Ns) > 0 || m.Rcode != dns.RcodeSuccess) || len(m.Answer) == 0 && !negative {
		t.Errorf("neither an answer nor a SOA alone:\n%s", m)
	}
	extra, seen := map[string]bool{}, map[string]bool{}
	for _, rr := range m.Extra {
		name := strings.ToLower(rr.Header().Name)
		if !targets[name] || seen[rr.String()] {
			t.Errorf("nothing points to %s, or it is there twice:\n%s", name, m)
		}
		extra[name], seen[rr.String()] = true, true
	}
	for target := range targets {
		if !dns.IsSubDomain(z.name, target) || !extra[target] {
			t.Errorf("%s is outside of %s, or without address:\n%s", target, z.name, m)
		}
	}
}
