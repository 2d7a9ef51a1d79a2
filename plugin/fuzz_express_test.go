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
	plugin  *ClusterSet
	answers *express.Answers
	server  *dnsserver.Server
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
	return &expressCase{c, a, server}
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

// expressBases are names below a zone.
func expressBases() []string {
	return append(fuzzBases(), "many.ns.svc", "_http._tcp.many.ns.svc", "_s._tcp.many.ns.svc", "h1.c1.many.ns.svc", "h1.h1.c1.many.ns.svc", "pair.ns.svc", "_http._tcp.pair.ns.svc")
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

// FuzzExpress checks that each answer of the express path equals the plugin chain's, byte by byte.
func FuzzExpress(f *testing.F) {
	for i, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypeHTTPS, dns.TypeANY, dns.TypeMX} {
		for _, zone := range []string{"Clusterset.local.", "global."} {
			for _, name := range expressBases() {
				q := new(dns.Msg).SetQuestion(strings.TrimPrefix(name+"."+zone, "."), qtype)
				if i%2 == 1 {
					q.SetEdns0(uint16(400*i), i%3 == 0) //nolint:gosec // small
				}
				packed, _ := q.Pack()
				f.Add(packed, uint8(i)) //nolint:gosec // few types
			}
		}
	}
	for i := range 8 {
		q := new(dns.Msg).SetQuestion("vip.ns.svc.global.", dns.TypeA)
		q.SetEdns0(1232, false)
		for range i {
			addOption(q, rand.New(rand.NewPCG(uint64(i), 0))) //nolint:gosec // for packets
		}
		packed, _ := q.Pack()
		f.Add(packed, uint8(8)) //nolint:gosec // few
	}
	for _, size := range []uint16{0, 511, 512, 4096, 4097, 65534, 65535} {
		q := new(dns.Msg).SetQuestion("vip.ns.svc.global.", dns.TypeA)
		q.SetEdns0(size, false)
		packed, _ := q.Pack()
		for i := range 70 {
			f.Add(packed, uint8(i)) //nolint:gosec // few
		}
	}
	addOddQueries(f)
	cases := expressCases(f)
	f.Fuzz(func(t *testing.T, packet []byte, which uint8) {
		compareExpress(t, cases[int(which/3)%len(cases)], packet, express.Via(which%3))
	})
}

// addOption adds an EDNS option of any length. Most options don't change the answer.
func addOption(q *dns.Msg, random *rand.Rand) {
	codes := []uint16{dns.EDNS0COOKIE, dns.EDNS0PADDING, dns.EDNS0TCPKEEPALIVE, dns.EDNS0TCPKEEPALIVE, dns.EDNS0NSID, dns.EDNS0SUBNET, dns.EDNS0EXPIRE, dns.EDNS0EDE, 65001}
	opt := q.IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_LOCAL{Code: codes[random.IntN(len(codes))], Data: make([]byte, []int{0, 2, 1, 8, 16, 40}[random.IntN(6)])})
}

// compareExpress compares the express path's answer to a packet with the chain's, and reports whether the express path answered.
func compareExpress(t *testing.T, e *expressCase, packet []byte, via express.Via) bool {
	t.Helper()
	size := express.MaxReply
	if via == express.TCP {
		size = dns.MaxMsgSize
	}
	out := make([]byte, size)
	reply := express.NewResponder(size).Reply(e.answers, out, packet, via)
	if reply.Size == 0 {
		return false
	}
	got, want := out[:reply.Size], e.chain(packet, via)
	if e.answers.Shuffle {
		got, want = inOrder(got), inOrder(want)
	}
	if !bytes.Equal(got, want) {
		a, b := new(dns.Msg), new(dns.Msg)
		t.Errorf("via %d: express, then the chain (%v, %v):\n%x\n%x\n%s\n%s", via, a.Unpack(got), b.Unpack(want), got, want, a, b)
	}
	return true
}

// TestExpressAnswersWhatIsAskedMost checks that the express path answers common queries. If it answered none, the comparison would prove
// nothing.
func TestExpressAnswersWhatIsAskedMost(t *testing.T) {
	cases := expressCases(t)
	ask := func(e *expressCase, name string, qtype uint16, change func(*dns.Msg), via express.Via) bool {
		q := new(dns.Msg).SetQuestion(name, qtype)
		if change != nil {
			change(q)
		}
		packed, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return compareExpress(t, e, packed, via)
	}
	edns := func(q *dns.Msg) { q.SetEdns0(4096, true) }
	cookie := func(q *dns.Msg) {
		q.SetEdns0(1232, false)
		opt := q.IsEdns0()
		opt.Option = append(opt.Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"}, &dns.EDNS0_PADDING{Padding: make([]byte, 20)}, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE})
	}
	nsid := func(q *dns.Msg) {
		cookie(q)
		opt := q.IsEdns0()
		opt.Option = append(opt.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
	}
	for _, c := range []struct {
		name   string
		qtype  uint16
		change func(*dns.Msg)
		want   bool
	}{
		{"vip.ns.svc.clusterset.local.", dns.TypeA, nil, true},
		{"VIP.ns.Svc.clusterset.Local.", dns.TypeA, edns, true},
		{"vip.ns.svc.clusterset.local.", dns.TypeA, cookie, true},
		{"vip.ns.svc.clusterset.local.", dns.TypeA, nsid, false},
		{"hl.ns.svc.clusterset.local.", dns.TypeA, edns, true},
		{"hl.ns.svc.clusterset.local.", dns.TypeAAAA, nil, true},
		{"hl.ns.svc.clusterset.local.", dns.TypeTXT, nil, true},
		{"gone.ns.svc.clusterset.local.", dns.TypeA, edns, true},
		{"ns.svc.clusterset.local.", dns.TypeA, nil, true},
		{"ns.dns.clusterset.local.", dns.TypeAAAA, nil, true},
		{"vip.ns.svc.clusterset.local.", dns.TypeSRV, nil, true},
		{"_HTTP._tcp.vip.ns.svc.clusterset.local.", dns.TypeSRV, edns, true},
		{"_http._tcp.HL.ns.svc.clusterset.local.", dns.TypeSRV, edns, true},
		{"_http._tcp.both.ns.svc.global.", dns.TypeSRV, nil, true},
		{"many.ns.svc.clusterset.local.", dns.TypeSRV, edns, true},
		{"many.ns.svc.clusterset.local.", dns.TypeSRV, nil, false}, // longer than 512 bytes
		{"vip.ns.svc.clusterset.local.", dns.TypeANY, nil, false},
		{"clusterset.local.", dns.TypeSOA, nil, false},
		{"vip.ns.svc.clusterset.local.", dns.TypeA, func(q *dns.Msg) { q.SetTsig("key.", dns.HmacSHA256, 300, 1) }, false},
		{"www.example.org.", dns.TypeA, nil, false},
	} {
		if got := ask(cases[0], c.name, c.qtype, c.change, express.UDPv4); got != c.want {
			t.Errorf("%s %s: answered %v, want %v", dns.TypeToString[c.qtype], c.name, got, c.want)
		}
		long := c.name == "many.ns.svc.clusterset.local." && c.qtype == dns.TypeSRV
		if got := ask(cases[0], c.name, c.qtype, c.change, express.TCP); got != (c.want || long) {
			t.Errorf("%s %s over TCP: answered %v, want %v", dns.TypeToString[c.qtype], c.name, got, c.want || long)
		}
	}
	for _, e := range cases[len(cases)-6:] { // the last two states, with three Corefiles each
		if ask(e, "vip.ns.svc.global.", dns.TypeA, nil, express.UDPv4) {
			t.Error("a server that isn't synced answers by the express path")
		}
	}
}

func TestExpressAllocatesNothing(t *testing.T) {
	c := newFuzzPlugin("clusterset.local.", "global.")
	c.index.Put(manyObjects(2)...)
	c.index.Publish()
	e := newExpressCase(t, c, "bufsize 1232", "loadbalance")
	responder, out := express.NewResponder(express.MaxReply), make([]byte, express.MaxReply)
	for _, c := range []struct {
		name  string
		qtype uint16
	}{
		{"vip.ns.svc.clusterset.local.", dns.TypeA},
		{"HL.ns.svc.clusterset.local.", dns.TypeA},
		{"none.ns.svc.clusterset.local.", dns.TypeA},
		{"_http._tcp.vip.ns.svc.clusterset.local.", dns.TypeSRV},
		{"many.ns.svc.clusterset.local.", dns.TypeSRV},
	} {
		q := new(dns.Msg).SetQuestion(c.name, c.qtype)
		q.SetEdns0(1232, true)
		packed, _ := q.Pack()
		answered := true
		allocs := testing.AllocsPerRun(100, func() { answered = responder.Reply(e.answers, out, packed, express.UDPv4).Size > 0 && answered })
		if allocs != 0 || !answered {
			t.Errorf("%s %s: %v allocations, answered %v", dns.TypeToString[c.qtype], c.name, allocs, answered)
		}
	}
}

// TestExpressIsTheChainForRandomPackets does the same as the fuzzer, but faster and from a seed.
func TestExpressIsTheChainForRandomPackets(t *testing.T) {
	cases, seed := expressCases(t), uint64(time.Now().UnixNano()) //nolint:gosec // any
	random := rand.New(rand.NewPCG(seed, 0))                      //nolint:gosec // for packets
	types := []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypeHTTPS, dns.TypeMX, dns.TypeANY, dns.TypeSOA}
	zones, bases := []string{"Clusterset.local.", "global.", "svc.global.", "in.clusterset.local.", "example."}, expressBases()
	answered := 0
	const packets = 20_000
	for range packets {
		name := bases[random.IntN(len(bases))] + "." + zones[random.IntN(len(zones))]
		if random.IntN(8) == 0 {
			name = fuzzLabels[random.IntN(len(fuzzLabels))] + "." + name
		}
		q := new(dns.Msg).SetQuestion(strings.TrimPrefix(name, "."), types[random.IntN(len(types))])
		q.CheckingDisabled, q.AuthenticatedData, q.RecursionDesired = random.IntN(4) == 0, random.IntN(4) == 0, random.IntN(2) == 0
		if random.IntN(2) == 0 {
			q.SetEdns0(uint16(random.IntN(3000)), random.IntN(2) == 0) //nolint:gosec // small
			for range max(0, random.IntN(6)-3) {
				addOption(q, random)
			}
		}
		packet, err := q.Pack()
		if err != nil {
			continue
		}
		for range random.IntN(3) {
			packet[2+random.IntN(len(packet)-2)] ^= 1 << random.IntN(8)
		}
		if compareExpress(t, cases[random.IntN(len(cases))], packet, express.Via(random.IntN(3))) { //nolint:gosec // three
			answered++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if answered < packets/10 {
		t.Errorf("%d of %d packets were answered by the express path: is this still about it?", answered, packets)
	}
	t.Logf("%d of %d packets were answered by the express path", answered, packets)
}
