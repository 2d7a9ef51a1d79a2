package clusterset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/cache" // before clusterset in the chain
	"github.com/coredns/coredns/plugin/kubernetes"
	"github.com/coredns/coredns/plugin/kubernetes/object"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/clusterset/clusterset/plugin/express"
)

// clusterStore is the store of the plugin kubernetes, with objects that a test sets. The methods that the interface has beside these are
// never called.
type clusterStore struct {
	kubernetesStore
	mu         sync.Mutex
	services   map[string][]*object.Service
	slices     map[string][]*object.Endpoints
	namespaces []string
	unsynced   bool
	changes    int64
}

type kubernetesStore interface {
	ServiceList() []*object.Service
	EndpointsList() []*object.Endpoints
	ServiceImportList() []*object.ServiceImport
	SvcIndexReverse(ip string) []*object.Service
	SvcExtIndexReverse(ip string) []*object.Service
	SvcImportIndex(key string) []*object.ServiceImport
	PodIndex(ip string) []*object.Pod
	EpIndexReverse(ip string) []*object.Endpoints
	McEpIndex(key string) []*object.MultiClusterEndpoints
	GetNodeByName(ctx context.Context, name string) (*corev1.Node, error)
	Run()
	Stop() error
}

func (s *clusterStore) SvcIndex(key string) []*object.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services[key]
}

func (s *clusterStore) EpIndex(key string) []*object.Endpoints {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slices[key]
}

var (
	errNoNamespace = errors.New("no such namespace")
	theNamespace   = &object.Namespace{}
)

func (s *clusterStore) GetNamespaceByName(name string) (*object.Namespace, error) {
	if !slices.Contains(s.namespaces, name) {
		return nil, errNoNamespace
	}
	return theNamespace, nil
}
func (*clusterStore) PodIndex(string) []*object.Pod             { return nil }
func (*clusterStore) EpIndexReverse(string) []*object.Endpoints { return nil }
func (s *clusterStore) HasSynced() bool                         { return !s.unsynced }
func (s *clusterStore) Modified(kubernetes.ModifiedMode) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 1_700_000_000 + s.changes
}

// change replaces the objects of one random service.
func (s *clusterStore) change(random *rand.Rand) {
	name, namespace := pick(random, clusterServices), pick(random, clusterNamespaces)
	svc, endpoints := randomService(random, name, namespace), []*object.Endpoints(nil)
	for range random.IntN(4) {
		endpoints = append(endpoints, randomSlice(random, svc.Index))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.services[svc.Index], s.slices[svc.Index] = []*object.Service{svc}, endpoints
	if random.IntN(5) == 0 {
		delete(s.services, svc.Index)
	}
}

var (
	clusterServices   = []string{"web", "db", "a", "tcp", "kubernetes", "ns", "x-1"}
	clusterNamespaces = []string{"default", "dns", "ns"}
	clusterHosts      = []string{"", "", "", "web-0", "web-1", "tcp", "Upper", "10-0-0-1"}
	clusterPods       = []string{"", "pod-a", "pod-b", "web.0", "web-1"}
	clusterAddrs      = []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.3", "10.9.8.7", "fd00::1", "fd00::", "FD00::1", "::ffff:10.0.0.1", "fd00:0::1"}
	clusterPorts      = []string{"http", "dns", "Metrics", ""}
	protocols         = []string{"TCP", "UDP", "SCTP"}
)

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

func randomService(random *rand.Rand, name, namespace string) *object.Service {
	svc := &object.Service{Name: name, Namespace: namespace, Index: object.ServiceKey(name, namespace), Type: corev1.ServiceTypeClusterIP}
	switch random.IntN(12) {
	case 0:
		svc.Type, svc.ExternalName, svc.ClusterIPs = corev1.ServiceTypeExternalName, "example.org", []string{""}
	case 1:
		svc.ClusterIPs = []string{""} // not allocated yet
	case 2, 3, 4, 5, 6:
		svc.ClusterIPs = []string{corev1.ClusterIPNone}
	default:
		for range 1 + random.IntN(2) {
			svc.ClusterIPs = append(svc.ClusterIPs, pick(random, clusterAddrs))
		}
	}
	for range random.IntN(4) {
		svc.Ports = append(svc.Ports, corev1.ServicePort{Name: pick(random, clusterPorts), Protocol: corev1.Protocol(pick(random, protocols)), Port: int32(1 + random.IntN(3))}) //nolint:gosec // small
	}
	if len(svc.Ports) == 0 {
		svc.Ports = []corev1.ServicePort{{Port: -1}}
	}
	return svc
}

// randomSlice returns an EndpointSlice with a few endpoints or, seldom, hundreds.
func randomSlice(random *rand.Rand, key string) *object.Endpoints {
	subset := object.EndpointSubset{}
	n, many := random.IntN(6), random.IntN(8) == 0
	if many {
		n = []int{12, 25, 40, 90, 130, 300}[random.IntN(6)]
	}
	for i := range n {
		ip := pick(random, clusterAddrs)
		if many {
			ip = fmt.Sprintf("10.1.%d.%d", i/250, i%250)
		}
		subset.Addresses = append(subset.Addresses, object.EndpointAddress{IP: ip, Hostname: pick(random, clusterHosts), TargetRefName: pick(random, clusterPods)})
	}
	for range random.IntN(4) {
		subset.Ports = append(subset.Ports, object.EndpointPort{Name: pick(random, clusterPorts), Protocol: pick(random, protocols), Port: int32(1 + random.IntN(3))}) //nolint:gosec // small
	}
	if len(subset.Ports) == 0 {
		subset.Ports = []object.EndpointPort{{Port: -1}}
	}
	return &object.Endpoints{Index: key, Subsets: []object.EndpointSubset{subset}}
}

// clusterOptionLines are lines of a stanza of kubernetes. Each case has some of them.
var clusterOptionLines = []string{
	"ttl 30", "ttl 5", "endpoint_pod_names", "pods insecure", "pods verified", "namespaces default ns", "ignore empty_service", "zonal",
	"fallthrough in-addr.arpa ip6.arpa", "fallthrough", "fallthrough ns.svc.cluster.local", "endpoint http://127.0.0.1:1", "startup_timeout 1s",
	"apiserver_qps 5", "apiserver_burst 5", "apiserver_max_inflight 5",
}

// clusterCase is a server with the plugin kubernetes behind clusterset.
type clusterCase struct {
	*expressCase
	store *clusterStore
}

func newClusterCase(tb testing.TB, random *rand.Rand, options []string, lines ...string) *clusterCase {
	tb.Helper()
	stanza := "kubernetes cluster.local in-addr.arpa {\n" + strings.Join(options, "\n") + "\n}\n"
	k, err := kubernetes.ParseStanza(newController(stanza))
	if err != nil {
		tb.Fatalf("%s: %v", stanza, err)
	}
	store := &clusterStore{services: map[string][]*object.Service{}, slices: map[string][]*object.Endpoints{}, namespaces: clusterNamespaces}
	k.APIConn, k.Next = store, nextPlugin{}
	for range 40 {
		store.change(random)
	}
	c := newFuzzPlugin("clusterset.local.", "svc.global.")
	c.Next = k
	e := newExpressCase(tb, c, lines...)
	config := &dnsserver.Config{Zone: ".", ListenHosts: []string{"127.0.0.1"}, Port: "53", Transport: "dns"}
	block := &express.Block{Configs: []*dnsserver.Config{config}, Tokens: tokensOf(tb, stanza+strings.Join(lines, "\n")+"\n")}
	zones, refusal := block.Clusters(k, e.answers.Zones)
	if refusal != "" {
		tb.Fatalf("%s: %s", stanza, refusal)
	}
	e.answers.Add(zones)
	if err := e.answers.Prepare(); err != nil {
		tb.Fatal(err)
	}
	e.corefile, e.same, e.changes = stanza+e.corefile, sorted, func() int64 { return store.Modified(0) }
	return &clusterCase{e, store}
}

func newController(stanza string) *caddy.Controller {
	c := caddy.NewTestController("dns", stanza)
	c.Next()
	return c
}

func tokensOf(tb testing.TB, directives string) map[string][]caddyfile.Token {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "Corefile")
	if err := os.WriteFile(path, []byte(".:53 {\n"+directives+"}\n"), 0o600); err != nil {
		tb.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	blocks, err := caddyfile.Parse(path, f, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return blocks[0].Tokens
}

// clusterCases returns servers with random options, objects and plugins in front.
func clusterCases(tb testing.TB, seed uint64) (cases []*clusterCase) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // for objects
	cases = append(cases, newClusterCase(tb, random, []string{"ttl 30", "fallthrough in-addr.arpa ip6.arpa"}, "bufsize 1232"))
	for range 16 {
		var options []string
		for _, i := range random.Perm(len(clusterOptionLines)) {
			line := clusterOptionLines[i]
			same := func(other string) bool { return strings.Fields(other)[0] == strings.Fields(line)[0] }
			if random.IntN(3) == 0 && !slices.ContainsFunc(options, same) {
				options = append(options, line)
			}
		}
		lines := somePlugins(random)
		if random.IntN(2) == 0 {
			// Nothing stays in the cache, so each query finds it cold.
			lines = append(lines, "cache 30 {\ndisable success cluster.local\ndisable denial cluster.local\n}")
		}
		cases = append(cases, newClusterCase(tb, random, options, lines...))
	}
	return cases
}

var clusterNames = []string{
	"S.N.svc", "S.N.svc", "S.N.svc", "web-0.S.N.svc", "web-1.S.N.svc", "tcp.S.N.svc", "upper.S.N.svc", "pod-a.S.N.svc", "10-0-0-1.S.N.svc", "fd00--1.S.N.svc", "fd00--0.S.N.svc",
	"_http._tcp.S.N.svc", "_dns._udp.S.N.svc", "_metrics._tcp.S.N.svc", "_._tcp.S.N.svc", "http.tcp.S.N.svc", "_http.S.N.svc", "nope.S.N.svc",
	"a.b.c.S.N.svc", "z.pin._zone.S.N.svc", "www.example.com.N.svc", "nope.N.svc", "S.nope.svc", "N.svc", "svc", "", "www.example.com", "example.com.svc",
	"10-0-0-1.N.pod", "pod", "N.pod", "dns-version", "ns.dns", "dns", "ns.dns.cluster.local.svc", "ns.dns.N.svc", "x.dns-version",
}

// clusterQuery returns a random query as a packet.
func clusterQuery(random *rand.Rand) []byte {
	packed, _ := clusterMessage(random).Pack()
	return packed
}

// clusterMessage returns a random query for the zones of the plugin kubernetes.
func clusterMessage(random *rand.Rand) *dns.Msg {
	name := strings.NewReplacer("S", pick(random, clusterServices), "N", pick(random, clusterNamespaces)).Replace(pick(random, clusterNames))
	name = strings.TrimPrefix(name+".cluster.local.", ".")
	if random.IntN(4) == 0 {
		at, end := random.IntN(len(name)), random.IntN(len(name))
		at, end = min(at, end), max(at, end)
		name = name[:at] + strings.ToUpper(name[at:end]) + name[end:]
	}
	q := new(dns.Msg).SetQuestion(name, pick(random, []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSRV, dns.TypeHTTPS, dns.TypeMX, dns.TypeTXT, dns.TypePTR, dns.TypeANY}))
	if random.IntN(3) > 0 {
		q.SetEdns0(pick(random, []uint16{0, 512, 1232, 1232, 4096, 65535}), random.IntN(2) == 0)
	}
	q.CheckingDisabled, q.AuthenticatedData = random.IntN(4) == 0, random.IntN(4) == 0
	return q
}

// sorted returns a reply with its sections in order: the plugin kubernetes answers in the order of maps. Its length stays.
func sorted(packet []byte) []byte {
	m := new(dns.Msg)
	if m.Unpack(packet) != nil {
		return packet
	}
	m.Compress = bytes.Contains(packet[12:], []byte{0xc0, 12, 0})
	for _, section := range [][]dns.RR{m.Answer, m.Extra} {
		slices.SortFunc(section, func(a, b dns.RR) int { return strings.Compare(a.String(), b.String()) })
	}
	packed, _ := m.Pack()
	return append(packed, byte(len(packet)), byte(len(packet)>>8)) //nolint:gosec // of a packet
}

// Rules A70, A71, A72, A73, A74, A75, A76, A77 and A78 of docs/spec/answers.md.
func FuzzExpressCluster(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 3)) //nolint:gosec // for packets
	for i := range 500 {
		f.Add(clusterQuery(random), uint64(i%7), uint8(i)) //nolint:gosec // few
	}
	cases := map[uint64][]*clusterCase{}
	f.Fuzz(func(t *testing.T, packet []byte, seed uint64, which uint8) {
		seed %= 64
		if cases[seed] == nil {
			cases[seed] = clusterCases(t, seed)
		}
		cases[seed][int(which/3)%len(cases[seed])].compare(t, packet, express.Via(which%3))
	})
}

// TestExpressClusterIsTheChain does the same as the fuzzer from a seed, while objects change.
func TestExpressClusterIsTheChain(t *testing.T) {
	seed := uint64(time.Now().UnixNano())    //nolint:gosec // any
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // for packets
	cases := clusterCases(t, seed)
	done := make(chan struct{})
	var changing sync.WaitGroup
	changing.Go(func() {
		changes := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // for objects
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				pick(changes, cases).store.change(changes)
			}
		}
	})
	answers := map[string]int{}
	for range 40_000 {
		if m := pick(random, cases).compare(t, clusterQuery(random), express.Via(random.IntN(3))); m != nil {
			answers[fmt.Sprintf("%s %s %v", dns.TypeToString[m.Question[0].Qtype], dns.RcodeToString[m.Rcode], len(m.Answer) > 0)]++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	close(done)
	changing.Wait()
	for _, kind := range []string{"A NOERROR true", "AAAA NOERROR true", "SRV NOERROR true", "A NOERROR false", "SRV NOERROR false", "A NXDOMAIN false", "SRV NXDOMAIN false", "HTTPS NOERROR false"} {
		if answers[kind] < 20 {
			t.Errorf("%d answers of the kind %q: %v", answers[kind], kind, answers)
		}
	}
}

// Most names that a cluster asks for are answered without allocations, beside those of the plugin's store. Rules A70, A71, A72, A73, A74, A75, A76, A77 and A78 of docs/spec/answers.md.
func TestExpressAnswersWhatAClusterAsksMost(t *testing.T) {
	e := newClusterCase(t, rand.New(rand.NewPCG(1, 1)), []string{"pods insecure", "fallthrough in-addr.arpa", "ttl 30"}, "bufsize 1232", "loadbalance", "cache 30") //nolint:gosec // for objects
	e.store.services = map[string][]*object.Service{
		"web.default": {{Name: "web", Namespace: "default", Index: "web.default", ClusterIPs: []string{"10.0.0.1", "fd00::1"}, Ports: []corev1.ServicePort{{Name: "http", Protocol: "TCP", Port: 80}}}},
		"db.default":  {{Name: "db", Namespace: "default", Index: "db.default", ClusterIPs: []string{corev1.ClusterIPNone}, Ports: []corev1.ServicePort{{Name: "pg", Protocol: "TCP", Port: 5432}}}},
		"ext.default": {{Name: "ext", Namespace: "default", Index: "ext.default", Type: corev1.ServiceTypeExternalName, ExternalName: "example.org", ClusterIPs: []string{""}, Ports: []corev1.ServicePort{{Port: -1}}}},
	}
	e.store.slices = map[string][]*object.Endpoints{"db.default": {{Index: "db.default", Subsets: []object.EndpointSubset{{
		Addresses: []object.EndpointAddress{{IP: "10.0.1.1", Hostname: "db-0"}, {IP: "10.0.1.2", Hostname: "db-1"}, {IP: "10.0.1.3"}},
		Ports:     []object.EndpointPort{{Name: "pg", Protocol: "TCP", Port: 5432}},
	}}}}}
	for _, c := range []struct {
		name    string
		qtype   uint16
		answers int // -1 if the chain answers
		rcode   int
	}{
		{"web.default.svc.cluster.local.", dns.TypeA, 1, dns.RcodeSuccess},
		{"WEB.default.svc.Cluster.Local.", dns.TypeA, 1, dns.RcodeSuccess},
		{"web.default.svc.cluster.local.", dns.TypeAAAA, 1, dns.RcodeSuccess},
		{"web.default.svc.cluster.local.", dns.TypeHTTPS, 0, dns.RcodeSuccess},
		{"_http._tcp.web.default.svc.cluster.local.", dns.TypeSRV, 1, dns.RcodeSuccess},
		{"db.default.svc.cluster.local.", dns.TypeA, 3, dns.RcodeSuccess},
		{"db.default.svc.cluster.local.", dns.TypeSRV, 3, dns.RcodeSuccess},
		{"db.default.svc.cluster.local.", dns.TypeAAAA, 0, dns.RcodeSuccess},
		{"db-0.db.default.svc.cluster.local.", dns.TypeA, 1, dns.RcodeSuccess},
		{"10-0-1-3.db.default.svc.cluster.local.", dns.TypeA, 1, dns.RcodeSuccess},
		{"default.svc.cluster.local.", dns.TypeA, 0, dns.RcodeSuccess},
		{"web.default.default.svc.cluster.local.", dns.TypeA, 0, dns.RcodeNameError},
		{"web.default.svc.cluster.local.svc.cluster.local.", dns.TypeA, 0, dns.RcodeNameError},
		{"www.example.org.cluster.local.", dns.TypeA, 0, dns.RcodeNameError},
		{"ext.default.svc.cluster.local.", dns.TypeA, -1, 0},
		{"web.default.svc.cluster.local.", dns.TypeTXT, -1, 0},
		{"WEB.default.svc.cluster.local.", dns.TypeSRV, -1, 0},
		{"10-0-1-3.default.pod.cluster.local.", dns.TypeA, -1, 0},
		{"z.pin._zone.db.default.svc.cluster.local.", dns.TypeA, -1, 0},
		{"cluster.local.", dns.TypeSOA, -1, 0},
		{"ns.dns.cluster.local.", dns.TypeA, -1, 0},
		{"1.0.0.10.in-addr.arpa.", dns.TypePTR, -1, 0},
	} {
		q := new(dns.Msg).SetQuestion(c.name, c.qtype)
		q.SetEdns0(1232, false)
		packed, _ := q.Pack()
		m := e.compare(t, packed, express.UDPv4)
		switch {
		case c.answers < 0:
			if m != nil {
				t.Errorf("%s %s: answered", dns.TypeToString[c.qtype], c.name)
			}
			continue
		case m == nil:
			t.Errorf("%s %s: left to the chain", dns.TypeToString[c.qtype], c.name)
			continue
		case len(m.Answer) != c.answers || m.Rcode != c.rcode:
			t.Errorf("%s %s: got %v", dns.TypeToString[c.qtype], c.name, m)
		}
		responder, out := express.NewResponder(express.MaxReply), make([]byte, express.MaxReply)
		if allocs := testing.AllocsPerRun(100, func() { responder.Reply(e.answers, out, packed, express.UDPv4) }); allocs != 0 {
			t.Errorf("%s %s: %v allocations beside those of the store", dns.TypeToString[c.qtype], c.name, allocs) // this store makes none
		}
	}
	unsynced := newClusterCase(t, rand.New(rand.NewPCG(1, 1)), nil) //nolint:gosec // for objects
	unsynced.store.unsynced = true
	packed, _ := new(dns.Msg).SetQuestion("nope.default.svc.cluster.local.", dns.TypeA).Pack()
	if m := unsynced.compare(t, packed, express.UDPv4); m != nil {
		t.Errorf("a server that isn't synced answers %v", m)
	}
}
