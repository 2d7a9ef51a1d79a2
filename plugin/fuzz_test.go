package clusterset

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/coredns/coredns/plugin/test"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// fuzzObjects are services of every sort, with names that could be taken for something else.
func fuzzObjects() []index.Object {
	addrs := func(texts ...string) index.Addrs {
		var list []netip.Addr
		for _, s := range texts {
			list = append(list, netip.MustParseAddr(s))
		}
		return index.SortAddrs(list)
	}
	group := func(cluster, hostname string, ready bool, texts ...string) index.Group {
		g := index.Group{Cluster: cluster, Ports: []index.Port{{Name: "http", Number: 8080}, {Name: "", Number: 9}}}
		for _, a := range addrs(texts...) {
			g.Endpoints = append(g.Endpoints, index.Endpoint{Addr: a, Hostname: hostname, Ready: ready})
		}
		return g
	}
	twoPorts := func(g index.Group) index.Group {
		g.Ports = append(g.Ports, index.Port{Name: "s", Number: 1, Protocol: index.SCTP})
		return g
	}
	slice := func(name string, key index.ServiceKey, g index.Group) *index.EndpointSlice {
		return &index.EndpointSlice{Namespace: key.Namespace(), Name: name, Service: key, Group: g}
	}
	http := []index.Port{{Name: "http", Number: 80}}
	return []index.Object{
		&index.ServiceImport{Service: "vip.ns", IPs: addrs("10.9.0.1", "fd09::1"), Ports: []index.Port{
			{Name: "http", Number: 80}, {Name: "dns", Number: 53, Protocol: index.UDP}, {Name: "", Number: 7, Protocol: index.SCTP},
		}},
		&index.ServiceImport{Service: "hl.ns", Headless: true},
		slice("1", "hl.ns", twoPorts(group("c1", "h0", true, "10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"))),
		slice("2", "hl.ns", group("c1", "", true, "10.0.0.3", "::5")),
		slice("3", "hl.ns", group("a.b", "h0", true, "10.0.0.4")),
		slice("4", "hl.ns", group("", "h0", true, "10.0.0.5")),
		slice("5", "hl.ns", group("c9", "h0", false, "10.0.0.6")),
		&index.ServiceImport{Service: "dead.gone", Headless: true, Ports: http},
		slice("6", "dead.gone", group("c1", "h0", false, "10.0.0.7")),
		&index.ServiceImport{Service: "waits.ns", Ports: http},
		&index.GlobalService{Service: "glob.ns", Ports: append([]index.Port{{Name: "s", Number: 1, Protocol: index.SCTP}}, http...),
			Groups: []index.Group{group("c1", "", true, "10.1.0.1"), group("a.b", "", true, "fd01::1"), group("c2", "", false, "10.1.0.3")}},
		&index.ServiceImport{Service: "both.ns", Ports: http},
		&index.GlobalService{Service: "both.ns", Headless: true, Groups: []index.Group{group("c1", "a", true, "10.2.0.1"), group("a.c1", "", true, "10.2.0.2")}},
		&index.ServiceImport{Service: "svc.svc", IPs: addrs("10.9.0.2")},
		&index.ServiceImport{Service: "clusterset.local", IPs: addrs("10.9.0.3")},
		&index.ServiceImport{Service: "dns-version.dns", IPs: addrs("10.9.0.4")},
		slice("7", "orphan.nowhere", group("c1", "h0", true, "10.0.0.8")),
	}
}

// fuzzNames are all the names below a zone that those objects make, written down from DNS.md; between them and the zone lie
// only empty non-terminals.
var fuzzNames = map[dialect]map[string]kind{
	mcs: {
		"": apex, "ns.dns": nameServer, "dns-version": version, "svc": empty, "gone.svc": empty,
		"vip.ns.svc": service, "_http._tcp.vip.ns.svc": port, "_dns._udp.vip.ns.svc": port,
		"hl.ns.svc": service, "_http._tcp.hl.ns.svc": port, "_s._sctp.hl.ns.svc": port, "h0.c1.hl.ns.svc": host, "10-0-0-3.c1.hl.ns.svc": host,
		"0--5.c1.hl.ns.svc": host, "h0.a.b.hl.ns.svc": host,
		"waits.ns.svc": service, "_http._tcp.waits.ns.svc": port,
		"glob.ns.svc": service, "_http._tcp.glob.ns.svc": port, "_s._sctp.glob.ns.svc": port,
		"both.ns.svc": service, "_http._tcp.both.ns.svc": port, "a.c1.both.ns.svc": host, "10-2-0-2.a.c1.both.ns.svc": host,
		"svc.svc.svc": service, "clusterset.local.svc": service, "dns-version.dns.svc": service,
	},
	global: {
		"c1.hl.ns.svc": host, "a.b.hl.ns.svc": host, "c1.glob.ns.svc": host, "a.b.glob.ns.svc": host, "c1.both.ns.svc": host,
		// The host "a" of c1 and the cluster "a.c1" have the same name: a host's addresses count.
		"a.c1.both.ns.svc": host,
	},
}

func init() {
	for name, k := range fuzzNames[mcs] {
		fuzzNames[global][name] = k
	}
}

// kindOf is what DNS.md has at a name below a zone.
func kindOf(d dialect, name string) kind {
	if k, ok := fuzzNames[d][name]; ok {
		return k
	}
	for below := range fuzzNames[d] {
		if strings.HasSuffix(below, "."+name) {
			return empty
		}
	}
	return nameError
}

// newFuzzPlugin answers for the zones given, the global one in its dialect.
func newFuzzPlugin(zoneNames ...string) *ClusterSet {
	c := &ClusterSet{ttl: defaultTTL, tiers: newTierCounters()}
	for i, name := range zoneNames {
		d := mcs
		if name == "global." || name == "." {
			d = global
		}
		c.zones = append(c.zones, newZone(name, d, i))
	}
	c.zones.sort()
	c.index = index.New(index.Options{Zones: c.zones.suffixes()})
	c.self.store([]netip.Addr{netip.MustParseAddr("10.9.9.9"), netip.MustParseAddr("fd99::9")})
	c.index.Put(fuzzObjects()...)
	c.index.Publish()
	return c
}

// fuzzLabels are what names are put together from, beside what the fuzzer thinks of.
var fuzzLabels = strings.Fields(`svc ns dns dns-version clusterset local global hl vip glob both waits dead gone orphan nowhere
	c1 a b c2 c9 h0 10-0-0-3 0--5 _http _dns _s _tcp _udp _sctp _ * \. \\ A\.b h0.c1 in`)

// fuzzBases are the names below a zone that exist, and those of services that exist for want of something.
func fuzzBases() []string {
	bases := map[string]bool{"": true, "dead.gone.svc": true, "orphan.nowhere.svc": true, "nowhere.svc": true}
	for name := range fuzzNames[global] {
		for ; name != ""; _, name, _ = strings.Cut(name, ".") {
			bases[name] = true
		}
	}
	return slices.Sorted(maps.Keys(bases))
}

// All names that differ from one that exists by up to two labels in front.
func TestNamesAndTheirNeighbours(t *testing.T) {
	c := newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local.")
	for _, base := range fuzzBases() {
		for _, zone := range []string{"clusterset.local.", "global.", "in.clusterset.local.", "xglobal.", "local."} {
			name := strings.TrimPrefix(base+"."+zone, ".")
			checkName(t, c, name)
			for _, label := range fuzzLabels {
				checkName(t, c, label+"."+name)
				for _, another := range fuzzLabels {
					checkName(t, c, another+"."+label+"."+name)
				}
			}
		}
	}
}

// FuzzName looks names up and compares what they stand for with the list above.
func FuzzName(f *testing.F) {
	for _, d := range []dialect{mcs, global} {
		for _, name := range fuzzBases() {
			f.Add(name+"."+map[dialect]string{mcs: "clusterset.local.", global: "global."}[d], []byte{}, "x")
			f.Add(strings.ToUpper(name)+".in.clusterset.local.", []byte{16}, "_http")
		}
	}
	for _, name := range []string{".", "..", "", "xglobal.", "vip.ns.svc.xglobal.", `svc\.ns.svc.global.`, `hl\.ns.svc.global.`, `_http\._tcp.vip.ns.svc.global.`, `x\.global.`, `x\\.global.`,
		`\103\104.global.`, strings.Repeat("a.", 120) + "global.", strings.Repeat("b", 63) + ".svc.global.", "a..global.", ".global."} {
		f.Add(name, []byte{0, 1}, `a\.b`)
	}
	plugins := []*ClusterSet{newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local."), newFuzzPlugin(".")}
	f.Fuzz(func(t *testing.T, name string, picks []byte, child string) {
		for _, p := range picks {
			name = fuzzLabels[int(p)%len(fuzzLabels)] + "." + name
		}
		for _, c := range plugins {
			if z := c.zones.match(lower(name)); z != nil { // whatever stands there
				z.lookup(&lookup{}, c.index.Snapshot(), lower(name))
			}
			canonical, ok := asReceived(name)
			if !ok {
				continue
			}
			k, z := checkName(t, c, canonical)
			if below, ok := asReceived(child + "." + canonical); ok && k == nameError {
				if childKind, childZone := checkName(t, c, below); childZone == z && childKind != nameError {
					t.Errorf("%s doesn't exist but %s below it does (RFC 8020)", canonical, below)
				}
			}
		}
	})
}

// asReceived returns a name as a server reads it from a packet, or false for what no packet can hold.
func asReceived(name string) (string, bool) {
	buf := make([]byte, 300)
	n, err := dns.PackDomainName(dns.Fqdn(name), buf, 0, nil, false)
	if err != nil {
		return "", false
	}
	name, _, err = dns.UnpackDomainName(buf[:n], 0)
	return name, err == nil
}

func checkName(t *testing.T, c *ClusterSet, qname string) (kind, *zone) {
	t.Helper()
	name := lower(qname)
	z := c.zones.match(name)
	var closest *zone
	for _, candidate := range c.zones {
		if dns.IsSubDomain(candidate.name, name) && (closest == nil || len(candidate.name) > len(closest.name)) {
			closest = candidate
		}
	}
	if z != closest {
		t.Fatalf("%s is in zone %v, want %v", name, z, closest)
	}
	if z == nil {
		return nameError, nil
	}
	labels := dns.SplitDomainName(name)
	below := strings.Join(labels[:len(labels)-dns.CountLabel(z.name)], ".")
	var l lookup
	z.lookup(&l, c.index.Snapshot(), name)
	if want := kindOf(z.dialect, below); l.kind != want {
		t.Errorf("%s (%s): kind %d, want %d", name, z.dialect, l.kind, want)
	}
	switch l.kind {
	case service, port, host:
		want := string(l.key) + ".svc." + z.suffix()
		if l.labels != "" {
			want = l.labels + "." + want
		}
		if want != name || lower(l.serviceName(qname)) != string(l.key)+".svc."+z.suffix() {
			t.Errorf("%s is taken for %s, a name of %s", name, want, l.serviceName(qname))
		}
		if l.kind == host && len(l.addrs) == 0 {
			t.Errorf("%s has no address", name)
		}
	}
	return l.kind, z
}

// fuzzWriter keeps what a handler writes.
type fuzzWriter struct {
	test.ResponseWriter
	written []*dns.Msg
}

func (w *fuzzWriter) WriteMsg(m *dns.Msg) error {
	w.written = append(w.written, m)
	return nil
}

// nextPlugin refuses, which tells its answers from ours.
type nextPlugin struct{}

func (nextPlugin) Name() string { return "next" }

func (nextPlugin) ServeDNS(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) {
	return dns.RcodeRefused, nil
}

// FuzzWire sends packets. What can be read as a query gets one whole answer to just that question, or none and a code that
// tells CoreDNS to write one.
func FuzzWire(f *testing.F) {
	for i, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSOA, dns.TypeNS, dns.TypeTXT, dns.TypeANY, dns.TypeAXFR, dns.TypeMX, dns.TypeOPT, 65280} {
		for _, d := range []dialect{mcs, global} {
			for _, name := range fuzzBases() {
				q := new(dns.Msg).SetQuestion(strings.TrimPrefix(name+map[dialect]string{mcs: ".Clusterset.local.", global: ".global."}[d], "."), qtype)
				if i%2 == 0 {
					q.SetEdns0(1232, true)
				}
				packed, _ := q.Pack()
				f.Add(packed, uint8(i)) //nolint:gosec // few types
			}
		}
	}
	addOddQueries(f)

	capped, through, unready := newFuzzPlugin("clusterset.local.", "global."), newFuzzPlugin("clusterset.local.", "global."), newFuzzPlugin("global.")
	capped.maxAnswers = 1
	through.Fall, through.Next = fall.Root, nextPlugin{}
	unready.index = index.New(index.Options{})
	plugins := []*ClusterSet{newFuzzPlugin("clusterset.local.", "global.", "in.clusterset.local."), newFuzzPlugin("."), capped, through, unready}
	f.Fuzz(func(t *testing.T, packet []byte, which uint8) {
		r := new(dns.Msg)
		if r.Unpack(packet) != nil || len(r.Question) == 0 {
			t.Skip("no query")
		}
		c := plugins[int(which)%len(plugins)]
		w, before := &fuzzWriter{}, r.String()
		rcode, err := c.ServeDNS(context.Background(), w, r)
		if r.String() != before {
			t.Errorf("the query, which others read too, was changed:\n%s\n%s", before, r)
		}
		switch len(w.written) {
		case 0:
			if plugin.ClientWrite(rcode) {
				t.Errorf("nothing written and %s, %v: the client waits in vain for\n%s", dns.RcodeToString[rcode], err, r)
			}
		case 1:
			if !plugin.ClientWrite(rcode) {
				t.Errorf("an answer written and %s: CoreDNS writes a second one", dns.RcodeToString[rcode])
			}
			checkReply(t, c, r, w.written[0])
		default:
			t.Errorf("%d answers to\n%s", len(w.written), r)
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
	z := c.zones.match(lower(q.Name))
	if z == nil || q.Qclass != dns.ClassINET {
		t.Fatalf("an answer to a question that isn't ours:\n%s", m)
	}
	packed, err := m.Pack()
	if err != nil {
		t.Fatalf("%v: the reply can't be sent:\n%s", err, m)
	}
	back := new(dns.Msg)
	if err := back.Unpack(packed); err != nil {
		t.Fatalf("%v: the reply can't be read:\n%s", err, m)
	}
	if back.Id != r.Id || !back.Response || back.Opcode != r.Opcode || back.Truncated || len(back.Question) == 0 || back.Question[0] != q {
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
			targets[lower(rr.Target)] = true
		case *dns.NS:
			targets[lower(rr.Ns)] = true
		}
	}
	checkSections(t, z, q, back, targets)
}

// checkSections expects an answer or a SOA, and addresses only of what the answer points to.
func checkSections(t *testing.T, z *zone, q dns.Question, m *dns.Msg, targets map[string]bool) {
	t.Helper()
	negative := len(m.Ns) == 1 && m.Ns[0].Header().Rrtype == dns.TypeSOA && strings.HasSuffix(q.Name, m.Ns[0].Header().Name) &&
		lower(m.Ns[0].Header().Name) == z.name
	if len(m.Answer) > 0 && (len(m.Ns) > 0 || m.Rcode != dns.RcodeSuccess) || len(m.Answer) == 0 && !negative {
		t.Errorf("neither an answer nor a SOA alone:\n%s", m)
	}
	extra, seen := map[string]bool{}, map[string]bool{}
	for _, rr := range m.Extra {
		name := lower(rr.Header().Name)
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

// One record that no packet can hold ends a transfer, so it would take every other service's names with it. Port names of 63
// characters are legal in Kubernetes, and the underscore makes them too long for a label; a long zone leaves no room for
// ports and clusters in front of long services.
func TestTransferSendsOnlyWhatQueriesGet(t *testing.T) {
	long := strings.Repeat("l", 63)
	endpoint := index.Endpoint{Addr: netip.MustParseAddr("10.3.0.1"), Ready: true}
	for _, zoneName := range []string{"clusterset.local.", "global.", ".", strings.Repeat("z.", 60)} {
		c := newFuzzPlugin(zoneName)
		c.zones[0].dialect = global
		for _, headless := range []bool{false, true} {
			key := index.NewServiceKey(long, fmt.Sprintf("%t%s", headless, long)[:63])
			c.index.Put(&index.GlobalService{Service: key, Headless: headless, Ports: []index.Port{{Name: long, Number: 1}, {Name: "p", Number: 2}},
				Groups: []index.Group{{Cluster: long, Ports: []index.Port{{Name: long, Number: 1}}, Endpoints: []index.Endpoint{endpoint}}}})
		}
		ch, err := c.Transfer(zoneName, 0)
		if err != nil {
			t.Fatal(err)
		}
		for rrs := range ch {
			for _, rr := range rrs {
				checkTransferred(t, c, rr)
			}
		}
	}
}

func checkTransferred(t *testing.T, c *ClusterSet, rr dns.RR) {
	t.Helper()
	packed, err := (&dns.Msg{Answer: []dns.RR{rr}}).Pack()
	if err == nil {
		err = new(dns.Msg).Unpack(packed) // Pack minds the length of labels, but not that of names
	}
	if err != nil {
		t.Errorf("%v: %s", err, rr)
		return
	}
	w := &fuzzWriter{}
	_, _ = c.ServeDNS(context.Background(), w, new(dns.Msg).SetQuestion(rr.Header().Name, rr.Header().Rrtype))
	same := func(answer dns.RR) bool { return answer.String() == rr.String() }
	if len(w.written) != 1 || !slices.ContainsFunc(w.written[0].Answer, same) {
		t.Errorf("%s is transferred, but queries get\n%v", rr, w.written)
	}
}

// FuzzManifest reads files. What comes out has names that can be served, and comes out again the next time.
func FuzzManifest(f *testing.F) {
	for _, s := range fuzzManifests {
		f.Add([]byte(s))
		f.Add([]byte("---\n" + s + "\n---\n# nothing\n---\n" + s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, notes, err := decodeManifest("a.yaml", data)
		if again := fmt.Sprint(decodeText(decodeManifest("a.yaml", data))); again != decodeText(objects, notes, err) {
			t.Errorf("read twice:\n%s\n%s", decodeText(objects, notes, err), again)
		}
		if err != nil && len(objects)+len(notes) > 0 {
			t.Errorf("%v, and yet %v and %v", err, objects, notes)
		}
		lines := strings.Count(string(data), "\n") + 1
		for _, n := range notes {
			checkPlace(t, n.place, lines)
		}
		x := index.New(index.Options{Zones: []string{"global."}})
		x.Publish()
		for _, l := range objects {
			checkPlace(t, l.place, lines)
			checkObject(t, l.object)
			x.Put(l.object)
		}
		for _, svc := range x.Snapshot().Services() {
			if name, ok := asReceived(string(svc.Key()) + ".svc.global."); !ok || x.Snapshot().Service(strings.TrimSuffix(name, ".svc.global.")) != svc {
				t.Errorf("service %s is found under no name", svc.Key())
			}
		}
	})
}

var fuzzManifests = []string{
	"", "# only a comment", "null", "[]", "42", "{", "\xff", "a: &a [*a]", "apiVersion: v1\nkind: ConfigMap\n",
	"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {name: a, namespace: ns}\nspec:\n  type: ClusterSetIP\n  ips: [10.0.0.1, fd00::1, x]\n  ports:\n  - {name: http, port: 80}\n  - {name: HTTP, port: 0}\n",
	"apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\nmetadata: {name: a}\nspec: {type: Headless}\n",
	"apiVersion: multicluster.x-k8s.io/v1beta1\nkind: ServiceImport\nmetadata: {name: a.b}\nspec: {type: x}\n",
	"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: a-1\n  namespace: ns\n  labels: {multicluster.kubernetes.io/service-name: a, multicluster.kubernetes.io/source-cluster: c.d}\naddressType: IPv4\nports: [{name: http, port: 80}]\nendpoints:\n- addresses: [10.0.0.1]\n  hostname: h\n  zone: z\n  conditions: {ready: true}\n",
	"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a-1}\naddressType: FQDN\nendpoints: []\n",
	"apiVersion: dns.fabedge.io/v1alpha1\nkind: GlobalService\nmetadata: {name: a, namespace: ns}\nspec:\n  type: Headless\n  ports: [{name: http, port: 80, protocol: UDP}]\n  endpoints:\n  - {addresses: [10.0.0.1], hostname: h, cluster: C1, zone: z, region: r, ready: false, ports: [{name: http, port: 81}]}\n  - {addresses: [], cluster: '-'}\n",
	"apiVersion: clusterset.dev/v1alpha1\nkind: MemberCluster\nmetadata: {name: c1}\nspec: {zone: z, region: r, drain: true, wieght: 3}\nstatus: {phase: Suspect}\n",
	`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster","metadata":{"name":"c1"}},{"apiVersion":"v1","kind":"List","items":[]}]}`,
	`{"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster","metadata":{"name":"c1"}} {"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster","metadata":{"name":"c2"}}`,
	"apiVersion: clusterset.dev/v1alpha1\nkind: MemberClusterList\nitems:\n- {apiVersion: clusterset.dev/v1alpha1, kind: MemberCluster, metadata: {name: c3}}\n",
	"apiVersion: v1\nkind: List\nitems: [null, 3]\n",
}

// The place of an object is the line where its document begins, so that a message leads to it.
func TestManifestPlaces(t *testing.T) {
	for data, want := range map[string]string{
		"\n{\n \"apiVersion\": \"v2\",\n \"kind\": \"A\"\n}\n\n{\"apiVersion\": \"v2\", \"kind\": \"B\"}": "[a.yaml:2 a.yaml:7]",
		"# one\napiVersion: v2\nkind: A\n---\n# two\n---\napiVersion: v2\nkind: B\n":                      "[a.yaml:1 a.yaml:7]",
	} {
		_, notes, err := decodeManifest("a.yaml", []byte(data))
		places := []string{}
		for _, n := range notes {
			places = append(places, n.place)
		}
		if fmt.Sprint(places) != want || err != nil {
			t.Errorf("places %v, %v, want %s of\n%s", places, err, want, data)
		}
	}
}

func decodeText(objects []located, notes []note, err error) string {
	var b strings.Builder
	for _, l := range objects {
		fmt.Fprintf(&b, "%s %+v\n", l.place, l.object)
	}
	return fmt.Sprint(b.String(), notes, err)
}

var placePattern = regexp.MustCompile(`^a\.yaml:(\d+)(: items\[\d+\])*$`)

func checkPlace(t *testing.T, place string, lines int) {
	t.Helper()
	m := placePattern.FindStringSubmatch(place)
	if m == nil {
		t.Fatalf("place %q", place)
	}
	if line, err := strconv.Atoi(m[1]); err != nil || line < 1 || line > lines {
		t.Errorf("place %s of a file of %d lines", place, lines)
	}
}

func checkObject(t *testing.T, o index.Object) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Errorf("%v: %+v", err, o)
		}
	}
	groups := []index.Group{}
	switch o := o.(type) {
	case *index.ServiceImport:
		groups = []index.Group{{Ports: o.Ports}}
		check(api.CheckLabel(o.Service.Name()))
		check(api.CheckLabel(o.Service.Namespace()))
	case *index.GlobalService:
		groups = append(o.Groups, index.Group{Ports: o.Ports})
		check(api.CheckLabel(o.Service.Name()))
		check(api.CheckLabel(o.Service.Namespace()))
	case *index.EndpointSlice:
		groups = []index.Group{o.Group}
		check(api.CheckLabel(o.Service.Name()))
		check(api.CheckLabel(o.Service.Namespace()))
	case *index.Cluster:
		check(api.CheckClusterName(o.Name))
	default:
		t.Errorf("a %T", o)
	}
	for _, g := range groups {
		if g.Cluster != "" {
			check(api.CheckClusterName(g.Cluster))
		}
		for _, p := range g.Ports {
			if p.Name != "" {
				check(api.CheckLabel(p.Name))
			}
			if p.Number == 0 {
				t.Errorf("port 0: %+v", o)
			}
		}
		for _, e := range g.Endpoints {
			_, err := api.ParseAddress(e.Addr.String())
			check(err)
			if e.Hostname != "" {
				check(api.CheckLabel(e.Hostname))
			}
		}
	}
}

// FuzzCorefile reads stanzas. Each gives options within what the documentation allows, or an error that names the line. The
// API server of the kubeconfig doesn't exist: to ask it anything would take until the test is given up.
func FuzzCorefile(f *testing.F) {
	const kubeconfig = "testdata/fuzz/kubeconfig"
	if _, err := os.Stat(kubeconfig); err != nil {
		f.Fatal(err)
	}
	lines := []string{
		"manifests .", "manifests . .", "manifests /absent", "kubeconfig " + kubeconfig, "kubeconfig " + kubeconfig + " other", "kubeconfig " + kubeconfig + " absent", "kubeconfig a b c",
		"location c1", "location C1 z1 r1", "location - - r", "location a.b 'z'", `location c1 "" ""`, "location a.b.c", "location c1 z r x", "location",
		"prefer cluster zone region", "prefer zone zone", "prefer", "prefer any", "boundary region", "boundary any", "boundary zone zone",
		"dialect global", "dialect mcs global", "dialect global elsewhere", "dialect x", "dialect", "namespaces a b", "namespaces", "namespaces A",
		"max_answers 1", "max_answers 65536", "max_answers 0", "ttl 0", "ttl 3600", "ttl 3601", "ttl -1", "ttl 5 5", "ttl x",
		"startup_timeout 0s", "startup_timeout -1s", "startup_timeout 5", "fallthrough", "fallthrough a.example", "fallthrough a..b", "nonsense", "{", "}",
	}
	for _, zoneNames := range []string{"", "clusterset.local global", ".", "svc.global", "a..b", "10.0.0.0/9", "dns://x:53 x", `\122.example`, "å.example"} {
		for _, o := range lines {
			f.Add("clusterset " + zoneNames + " {\n  " + o + "\n  manifests .\n}\n")
			f.Add("clusterset " + zoneNames + " {\n  kubeconfig " + kubeconfig + "\n  location c1 z1 r1\n  " + o + "\n}\n")
		}
	}
	f.Add("clusterset")
	f.Add("clusterset clusterset.local clusterset..example {\n manifests .\n}\n")
	f.Add("clusterset " + strings.Repeat("z.", 125) + "z {\n manifests .\n}\n")
	f.Add("clusterset a {\n manifests .\n}\nclusterset b {\n manifests .\n}\n")
	f.Fuzz(func(t *testing.T, stanza string) {
		for _, special := range []string{"/dev", "/proc", "/sys"} {
			if strings.Contains(stanza, special) {
				t.Skip("files that never end")
			}
		}
		controller := func() *caddy.Controller {
			c := caddy.NewTestController("dns", stanza)
			c.ServerBlockKeys = []string{"dns://clusterset.local.:53", "global."}
			return c
		}
		o, err := parse(controller())
		if _, again := parse(controller()); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("read twice: %v, %v", err, again)
		}
		if err != nil {
			if !regexp.MustCompile(`Testfile:\d+ `).MatchString(err.Error()) {
				t.Errorf("error %q doesn't name the line", err)
			}
			return
		}
		checkOptions(t, o)
		checkZoneArgs(t, controller())
	})
}

// checkZoneArgs expects every zone that an accepted stanza names to be one: a zone left out without a word is a typing
// error that shows in production.
func checkZoneArgs(t *testing.T, c *caddy.Controller) {
	t.Helper()
	check := func(args []string) {
		for _, arg := range args {
			if len(plugin.Host(arg).NormalizeExact()) == 0 {
				t.Errorf("%q is no zone, and is left out without a word", arg)
			}
		}
	}
	c.Next()
	check(c.RemainingArgs())
	for c.NextBlock() {
		if option, args := c.Val(), c.RemainingArgs(); option == "fallthrough" {
			check(args)
		}
	}
}

func checkOptions(t *testing.T, o *options) {
	t.Helper()
	if o.ttl > 3600 || o.maxAnswers < 0 || o.maxAnswers > 65535 || o.startupTimeout < 0 {
		t.Errorf("ttl %d, max_answers %d, startup_timeout %v", o.ttl, o.maxAnswers, o.startupTimeout)
	}
	if (o.manifests == "") == (o.kubeconfig == "") || (o.config == nil) != (o.kubeconfig == "") {
		t.Errorf("sources %q and %q", o.manifests, o.kubeconfig)
	}
	if o.namespaces != nil && len(o.namespaces) == 0 {
		t.Error("no namespaces: nothing would be served")
	}
	for _, ns := range o.namespaces {
		if err := api.CheckLabel(ns); err != nil {
			t.Errorf("namespace %q %v", ns, err)
		}
	}
	if c := o.location.Cluster; c != "" && api.CheckClusterName(c) != nil || api.CheckLocation(o.location.Zone) != nil || api.CheckLocation(o.location.Region) != nil {
		t.Errorf("location %q", o.location)
	}
	tiers := slices.Clone(o.policy.Prefer)
	slices.Sort(tiers)
	if len(slices.Compact(tiers)) != len(o.policy.Prefer) || slices.Contains(tiers, topology.Any) || !o.location.Has(o.policy.Boundary) {
		t.Errorf("policy %v at %s", o.policy, o.location)
	}
	if len(o.zones) == 0 {
		t.Error("no zones")
	}
	numbers := map[int]bool{}
	for i, z := range o.zones {
		if i > 0 && len(z.name) > len(o.zones[i-1].name) {
			t.Errorf("zone %s after %s, which is shorter", z.name, o.zones[i-1].name)
		}
		if numbers[z.number] || z.number >= len(o.zones) || z.dialect > global {
			t.Errorf("zone %+v", *z)
		}
		numbers[z.number] = true
		for _, name := range []string{z.name, z.ns, z.mbox, "dns-version." + z.suffix()} {
			if got, ok := asReceived(name); !ok || lower(got) != name {
				t.Errorf("zone %q: no packet can hold the name %q", z.name, name)
			}
		}
		if o.zones.match(z.name) != z {
			t.Errorf("zone %q is not found", z.name)
		}
	}
}
