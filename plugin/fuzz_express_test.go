package clusterset

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	_ "github.com/coredns/coredns/plugin/any"         // before clusterset in the chain
	_ "github.com/coredns/coredns/plugin/bufsize"     // before clusterset in the chain
	_ "github.com/coredns/coredns/plugin/cancel"      // before clusterset in the chain
	_ "github.com/coredns/coredns/plugin/chaos"       // before clusterset in the chain
	_ "github.com/coredns/coredns/plugin/errors"      // before clusterset in the chain
	_ "github.com/coredns/coredns/plugin/loadbalance" // before clusterset in the chain
	_ "github.com/coredns/coredns/plugin/metadata"    // before clusterset in the chain
	_ "github.com/coredns/coredns/plugin/nsid"        // before clusterset in the chain
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
	"github.com/clusterset/clusterset/plugin/express"
)

// expressCase is a server with and without the express path.
type expressCase struct {
	answers  *express.Answers
	server   *dnsserver.Server
	corefile string
	same     func(packet []byte) []byte // removes the differences that are allowed
	changes  func() int64               // counts those of its objects
}

// newExpressCase puts the plugins of the Corefile lines before c and sets them up with their own setup functions. The lines can be in any
// order.
func newExpressCase(tb testing.TB, c *ClusterSet, lines ...string) *expressCase {
	tb.Helper()
	config := &dnsserver.Config{Zone: ".", ListenHosts: []string{"127.0.0.1"}, Port: "53", Transport: "dns"}
	a := c.expressAnswers(false)
	slices.SortFunc(lines, func(x, y string) int { return directiveOrder(x) - directiveOrder(y) })
	for _, line := range lines {
		name, argument, _ := strings.Cut(line, " ")
		setup, err := caddy.DirectiveAction("dns", name)
		if err != nil {
			tb.Fatal(err)
		}
		controller := caddy.NewTestController("dns", line)
		if err := setup(controller); err != nil {
			tb.Fatal(err)
		}
		for _, p := range dnsserver.GetConfig(controller).Plugin {
			config.AddPlugin(p)
		}
		switch name {
		case "bufsize":
			size, _ := strconv.Atoi(argument)
			a.Bufsize = uint16(size) //nolint:gosec // of a test
		case "loadbalance":
			a.Shuffle = true
		}
	}
	a.Options = true
	if a.Bufsize == 0 {
		a.Bufsize = (&express.Block{Configs: []*dnsserver.Config{config}}).Imitates().Bufsize
	}
	config.AddPlugin(func(plugin.Handler) plugin.Handler { return c })
	if err := a.Prepare(); err != nil {
		tb.Fatal(err)
	}
	server, err := dnsserver.NewServer("dns://127.0.0.1:53", []*dnsserver.Config{config})
	if err != nil {
		tb.Fatal(err)
	}
	e := &expressCase{answers: a, server: server, corefile: strings.Join(lines, "\n"), same: slices.Clone[[]byte], changes: func() int64 { return 0 }}
	if a.Shuffle {
		e.same = inOrder
	}
	return e
}

func directiveOrder(line string) int {
	name, _, _ := strings.Cut(line, " ")
	return slices.Index(dnsserver.Directives, name)
}

// expressPlugins are Corefile lines. Each case has some of them.
var expressPlugins = []string{"metadata", "cancel 5s", "nsid a-name", "errors", "any", "chaos a-version", "loadbalance", "bufsize 1232", "bufsize 512", "bufsize 4096"}

// somePlugins picks random lines, at most one for each directive.
func somePlugins(random *rand.Rand) (lines []string) {
	for _, i := range random.Perm(len(expressPlugins)) {
		line := expressPlugins[i]
		if random.IntN(2) == 0 && !slices.ContainsFunc(lines, func(other string) bool { return directiveOrder(other) == directiveOrder(line) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// manyObjects returns a headless service with large SRV answers: dual-stack endpoints with several ports. Cluster h1.c1 has the same name
// as host h1 of cluster c1, and the cluster heavy has a different weight.
func manyObjects(endpoints int) []index.Object {
	objects := []index.Object{&index.ServiceImport{Service: "many.ns", Headless: true}}
	for i, cluster := range []string{"c1", "h1.c1", "heavy"} {
		g := index.Group{Cluster: cluster, Ports: []index.Port{{Name: "http", Number: 8080}, {Name: "s", Number: uint16(9000 + i)}}} //nolint:gosec // small
		for j := range endpoints {
			for _, addr := range []netip.Addr{netip.AddrFrom4([4]byte{10, 5, byte(i), byte(j)}), netip.AddrFrom16([16]byte{0xfd, 5, 14: byte(i), 15: byte(j)})} {
				g.Endpoints = append(g.Endpoints, index.Endpoint{Addr: addr, Hostname: fmt.Sprintf("h%d", j), Ready: true})
			}
		}
		objects = append(objects, &index.EndpointSlice{Namespace: "ns", Name: "many-" + cluster, Service: "many.ns", Group: g})
	}
	pair := &index.ServiceImport{Service: "pair.ns", IPs: index.Addrs{netip.AddrFrom4([4]byte{10, 6}), netip.AddrFrom4([4]byte{10, 7})}, Ports: []index.Port{{Name: "http", Number: 80}}}
	return append(objects, &index.Cluster{Name: "heavy", Weight: 50}, pair)
}

// expressCases returns a server for each state, with several Corefiles.
func expressCases(tb testing.TB) (cases []*expressCase) {
	random := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // for Corefiles
	cases = append(cases, newExpressCase(tb, expressStates()[0], "bufsize 1232"))
	for _, state := range expressStates() {
		for range 3 {
			cases = append(cases, newExpressCase(tb, state, somePlugins(random)...))
		}
	}
	return cases
}

// expressStates returns plugins in different states. In the last two, the express path has nothing to answer from.
func expressStates() []*ClusterSet {
	with := func(c *ClusterSet, objects ...index.Object) *ClusterSet {
		c.index.Put(objects...)
		c.index.Publish()
		return c
	}
	// Few endpoints and many, so that SRV answers fit as they are, fit only when compressed, or don't fit.
	few, many := with(newFuzzPlugin("clusterset.local.", "global."), manyObjects(2)...), with(newFuzzPlugin("clusterset.local.", "global."), manyObjects(4)...)
	// Over TCP too.
	most := with(newFuzzPlugin("clusterset.local.", "global."), manyObjects(100)...)
	drained := with(newFuzzPlugin("clusterset.local.", "global."), append(manyObjects(2), &index.Cluster{Name: "c1", Member: topology.Member{Drain: true}})...)
	capped, through, unready := with(newFuzzPlugin("clusterset.local.", "global."), manyObjects(2)...), newFuzzPlugin("clusterset.local.", "global."), newFuzzPlugin("global.")
	capped.maxAnswers = 1
	through.Fall, through.Next = fall.Root, nextPlugin{}
	passing := newFuzzPlugin("global.")
	passing.Next = nextPlugin{}
	unready.index = index.New(index.Options{})
	stale := newFuzzPlugin("clusterset.local.", "global.")
	stale.index = index.New(index.Options{})
	stale.index.Restore(fuzzObjects(), time.Unix(1, 0))
	nested := newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local.")
	return []*ClusterSet{few, many, most, drained, nested, newFuzzPlugin("."), newFuzzPlugin("svc.global.", "clusterset.local."), passing, capped, through, unready, stale}
}

// packetWriter keeps the chain's reply as a packet.
type packetWriter struct {
	test.ResponseWriter
	packed []byte
}

func (w *packetWriter) WriteMsg(m *dns.Msg) (err error) {
	w.packed, err = m.Pack()
	return err
}

// chain returns the reply of the plugin chain to a packet.
func (e *expressCase) chain(packet []byte, via express.Via) []byte {
	r := new(dns.Msg)
	if r.Unpack(packet) != nil {
		return nil
	}
	w := &packetWriter{ResponseWriter: test.ResponseWriter{RemoteIP: "192.0.2.1", TCP: via == express.TCP}}
	if via == express.UDPv6 {
		w.RemoteIP = "2001:db8::1"
	}
	e.server.ServeDNS(context.Background(), w, r)
	return w.packed
}

// inOrder sorts the addresses of a reply that may be shuffled.
func inOrder(packet []byte) []byte {
	m := new(dns.Msg)
	if m.Unpack(packet) != nil || len(m.Answer) == 0 {
		return packet
	}
	addrs := m.Extra
	if m.Question[0].Qtype != dns.TypeSRV {
		addrs = m.Answer
	} else if m.IsEdns0() != nil {
		addrs = addrs[:len(addrs)-1] // OPT is the last
	}
	slices.SortFunc(addrs, func(a, b dns.RR) int { return strings.Compare(a.String(), b.String()) })
	m.Compress = bytes.Contains(packet[12:], []byte{0xc0, 12, 0, byte(m.Question[0].Qtype), 0, 1}) //nolint:gosec // A, AAAA or SRV
	packed, _ := m.Pack()
	return packed
}

// FuzzExpress checks that each answer of the express path equals the plugin chain's, byte by byte. Its seeds are others each time.
func FuzzExpress(f *testing.F) {
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)) //nolint:gosec // for packets
	for range 10_000 {
		packed, err := expressQuery(random).Pack()
		if err != nil {
			continue
		}
		for range random.IntN(3) {
			packed[2+random.IntN(len(packed)-2)] ^= 1 << random.IntN(8)
		}
		f.Add(packed, uint8(random.UintN(256))) //nolint:gosec // any
	}
	addOddQueries(f)
	cases := expressCases(f)
	f.Fuzz(func(t *testing.T, packet []byte, which uint8) {
		cases[int(which/3)%len(cases)].compare(t, packet, express.Via(which%3))
	})
}

// expressBases are names below a zone.
var expressBases = sync.OnceValue(func() []string {
	return append(fuzzBases(), "many.ns.svc", "_http._tcp.many.ns.svc", "_s._tcp.many.ns.svc", "h1.c1.many.ns.svc", "h1.h1.c1.many.ns.svc", "pair.ns.svc", "_http._tcp.pair.ns.svc")
})

// expressQuery returns a random query, mostly for our zones.
func expressQuery(random *rand.Rand) *dns.Msg {
	name := pick(random, expressBases()) + "." + pick(random, []string{"Clusterset.local.", "global.", "svc.global.", "in.clusterset.local.", "example."})
	if random.IntN(8) == 0 {
		name = pick(random, fuzzLabels) + "." + name
	}
	types := []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypeHTTPS, dns.TypeMX, dns.TypeANY, dns.TypeSOA}
	q := new(dns.Msg).SetQuestion(strings.TrimPrefix(name, "."), pick(random, types))
	q.CheckingDisabled, q.AuthenticatedData, q.RecursionDesired = random.IntN(4) == 0, random.IntN(4) == 0, random.IntN(2) == 0
	if random.IntN(2) == 0 {
		q.SetEdns0(pick(random, []uint16{0, 400, 511, 512, uint16(random.IntN(3000)), 1232, 4096, 4097, 65534, 65535}), random.IntN(2) == 0) //nolint:gosec // small
		for range max(0, random.IntN(6)-3) {
			addOption(q, random)
		}
	}
	return q
}

// addOption adds an EDNS option of any length. Most options don't change the answer.
func addOption(q *dns.Msg, random *rand.Rand) {
	codes := []uint16{dns.EDNS0COOKIE, dns.EDNS0PADDING, dns.EDNS0TCPKEEPALIVE, dns.EDNS0TCPKEEPALIVE, dns.EDNS0NSID, dns.EDNS0SUBNET, dns.EDNS0EXPIRE, dns.EDNS0EDE, 65001}
	opt := q.IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_LOCAL{Code: pick(random, codes), Data: make([]byte, pick(random, []int{0, 2, 1, 8, 16, 40}))})
}

// compare compares the express path's answer to a packet with the chain's, and returns it, or nil if the express path left the packet to the
// chain. If an object changes meanwhile, it does so again.
func (e *expressCase) compare(t *testing.T, packet []byte, via express.Via) *dns.Msg {
	t.Helper()
	size := express.MaxReply
	if via == express.TCP {
		size = dns.MaxMsgSize
	}
	responder, out := express.NewResponder(size), make([]byte, size)
	for {
		before := e.changes()
		reply := responder.Reply(e.answers, out, packet, via)
		if reply.Size == 0 {
			return nil
		}
		got, want := e.same(out[:reply.Size]), e.same(e.chain(packet, via))
		if e.changes() != before {
			continue
		}
		a, b := new(dns.Msg), new(dns.Msg)
		errA, errB := a.Unpack(got), b.Unpack(want)
		if !bytes.Equal(got, want) {
			t.Errorf("via %d: express, then the chain (%v, %v):\n%x\n%x\n%s\n%s\nwith\n%s", via, errA, errB, got, want, a, b, e.corefile)
		}
		return a
	}
}

// The express path answers common queries, without allocations. If it answered none, the comparison would prove nothing.
func TestExpressAnswersWhatIsAskedMostAndAllocatesNothing(t *testing.T) {
	states := expressStates()
	usual := newExpressCase(t, states[0], "bufsize 1232", "loadbalance")
	edns := func(q *dns.Msg) { q.SetEdns0(4096, true) }
	with := func(more ...dns.EDNS0) func(*dns.Msg) {
		return func(q *dns.Msg) {
			q.SetEdns0(1232, false)
			q.IsEdns0().Option = append([]dns.EDNS0{
				&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"}, &dns.EDNS0_PADDING{Padding: make([]byte, 20)}, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE},
			}, more...)
		}
	}
	for _, c := range []struct {
		name     string
		qtype    uint16
		change   func(*dns.Msg)
		udp, tcp bool
	}{
		{"vip.ns.svc.clusterset.local.", dns.TypeA, nil, true, true},
		{"VIP.ns.Svc.clusterset.Local.", dns.TypeA, edns, true, true},
		{"vip.ns.svc.clusterset.local.", dns.TypeA, with(), true, true},
		{"vip.ns.svc.clusterset.local.", dns.TypeA, with(&dns.EDNS0_NSID{Code: dns.EDNS0NSID}), false, false},
		{"hl.ns.svc.clusterset.local.", dns.TypeA, edns, true, true},
		{"hl.ns.svc.clusterset.local.", dns.TypeAAAA, nil, true, true},
		{"hl.ns.svc.clusterset.local.", dns.TypeTXT, nil, true, true},
		{"gone.ns.svc.clusterset.local.", dns.TypeA, edns, true, true},
		{"ns.svc.clusterset.local.", dns.TypeA, nil, true, true},
		{"ns.dns.clusterset.local.", dns.TypeAAAA, nil, true, true},
		{"vip.ns.svc.clusterset.local.", dns.TypeSRV, nil, true, true},
		{"_HTTP._tcp.vip.ns.svc.clusterset.local.", dns.TypeSRV, edns, true, true},
		{"_http._tcp.HL.ns.svc.clusterset.local.", dns.TypeSRV, edns, true, true},
		{"_http._tcp.both.ns.svc.global.", dns.TypeSRV, nil, true, true},
		{"many.ns.svc.clusterset.local.", dns.TypeSRV, edns, true, true},
		{"many.ns.svc.clusterset.local.", dns.TypeSRV, nil, false, true}, // longer than 512 bytes
		{"vip.ns.svc.clusterset.local.", dns.TypeANY, nil, false, false},
		{"clusterset.local.", dns.TypeSOA, nil, false, false},
		{"vip.ns.svc.clusterset.local.", dns.TypeA, func(q *dns.Msg) { q.SetTsig("key.", dns.HmacSHA256, 300, 1) }, false, false},
		{"www.example.org.", dns.TypeA, nil, false, false},
	} {
		q := new(dns.Msg).SetQuestion(c.name, c.qtype)
		if c.change != nil {
			c.change(q)
		}
		packed, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		for via, want := range map[express.Via]bool{express.UDPv4: c.udp, express.TCP: c.tcp} {
			if got := usual.compare(t, packed, via); (got != nil) != want {
				t.Errorf("%s %s via %d: got %v, want an answer: %v", dns.TypeToString[c.qtype], c.name, via, got, want)
			}
		}
		responder, out := express.NewResponder(express.MaxReply), make([]byte, express.MaxReply)
		if allocs := testing.AllocsPerRun(100, func() { responder.Reply(usual.answers, out, packed, express.UDPv4) }); c.udp && allocs != 0 {
			t.Errorf("%s %s: %v allocations", dns.TypeToString[c.qtype], c.name, allocs)
		}
	}
	packed, _ := new(dns.Msg).SetQuestion("vip.ns.svc.global.", dns.TypeA).Pack()
	for _, state := range states[len(states)-2:] {
		if newExpressCase(t, state).compare(t, packed, express.UDPv4) != nil {
			t.Error("a server that isn't synced answers by the express path")
		}
	}
}
