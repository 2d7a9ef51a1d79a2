package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// expressServer is a process that answers for expressObjects, with or without the express path.
type expressServer struct {
	*coreDNS
	dns, metrics string
	fill         *strings.Replacer
}

const expressObjects = `apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: web, namespace: test}
spec:
  type: ClusterSetIP
  ips: [10.42.0.1, "fd00:42::1"]
  ports: [{name: http, protocol: TCP, port: 80}]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: db, namespace: test}
spec:
  type: Headless
  ports: [{name: pg, protocol: TCP, port: 5432}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: db-east
  namespace: test
  labels: {multicluster.kubernetes.io/service-name: db, multicluster.kubernetes.io/source-cluster: east}
addressType: IPv4
ports: [{name: pg, protocol: TCP, port: 5432}]
endpoints:
  - {addresses: [10.3.0.1], hostname: db-0}
  - {addresses: [10.3.0.2], hostname: db-1}
  - {addresses: [10.3.0.3], hostname: db-2}
`

// expressCorefile has the usual plugins, and some more.
func expressCorefile(more, option string) string {
	return fmt.Sprintf(`.:DNS {
    bind 127.0.0.1
    errors
    prometheus 127.0.0.1:METRICS
    bufsize 1232
    clusterset clusterset.local svc.global {
        manifests OBJECTS
        startup_timeout 30s
        %s
    }
    loadbalance
    %s
    erratic {
        drop 0
    }
}
`, option, more)
}

// startAt runs a server at a port. In its Corefiles DNS and METRICS are its ports, OBJECTS or DIR is a directory with expressObjects, a
// certificate and a zone, and each PORT is a free port.
func startAt(t *testing.T, port, corefile string) *expressServer {
	t.Helper()
	dir := t.TempDir()
	if _, err := kube.WriteCertificate(dir); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"objects.yaml": expressObjects,
		"zone":         "$ORIGIN clusterset.local.\n@ 60 SOA ns.dns hostmaster 1 60 60 60 60\nweb.test.svc 60 A 10.9.9.9\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &expressServer{dns: port, metrics: freeport.For(t)}
	s.fill = strings.NewReplacer("DNS", port, "METRICS", s.metrics, "OBJECTS", dir, "DIR", dir)
	s.coreDNS = startCoreDNS(t, s.text(t, corefile))
	return s
}

func (s *expressServer) text(t *testing.T, corefile string) string {
	t.Helper()
	corefile = s.fill.Replace(corefile)
	for strings.Contains(corefile, "PORT") {
		corefile = strings.Replace(corefile, "PORT", freeport.For(t), 1)
	}
	return corefile
}

// reload makes the process load another Corefile.
func (s *expressServer) reload(t *testing.T, corefile string) {
	t.Helper()
	s.load(t, s.text(t, corefile), "Reloading complete")
}

// failToReload makes the process load a Corefile that can't be served.
func (s *expressServer) failToReload(t *testing.T, corefile string) {
	t.Helper()
	s.load(t, s.text(t, corefile), "Restart failed")
}

// expectGauges waits until express_enabled says of these addresses, and no others, whether the express path is on.
func (s *expressServer) expectGauges(t *testing.T, on bool, addrs ...string) {
	t.Helper()
	var want []string
	for _, addr := range addrs {
		want = append(want, fmt.Sprintf("coredns_clusterset_express_enabled{server=%q} %d", "dns://"+strings.ReplaceAll(addr, "DNS", s.dns), map[bool]int{true: 1}[on]))
	}
	slices.Sort(want)
	kube.Eventually(t, func() error {
		got := regexp.MustCompile(`coredns_clusterset_express_enabled\{.*`).FindAllString(metricsText(t, s.metrics), -1)
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("the gauges are %q, want %q", got, want)
		}
		return nil
	})
}

// startExpress runs a server whose queries are counted from here on.
func startExpress(t *testing.T, corefile, options string) *expressServer {
	t.Helper()
	s := startAt(t, freeport.For(t), strings.ReplaceAll(corefile, "OPTIONS", options))
	answered := expectAddress(t, s.dns, "web.test.svc.clusterset.local.", "10.42.0.1")
	// A query is counted after its reply is sent, so wait until all are counted. The plugin loop sends a query of its own.
	if strings.Contains(corefile, "\nloop\n") {
		answered++
	}
	kube.Eventually(t, func() error {
		if counted := fleet.Samples(metricsText(t, s.metrics)).Sum("coredns_dns_request_duration_seconds_count"); int(counted) != answered {
			return fmt.Errorf("%v queries counted, want %d", counted, answered)
		}
		return nil
	})
	return s
}

// everyDirective returns a Corefile with all directives that leave the express path on.
func everyDirective(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile("../../plugin/express/testdata/directives.txtar")
	if err != nil {
		t.Fatal(err)
	}
	corefile := ".:DNS {\n"
	for _, f := range archive.Files {
		corefile += string(f.Data)
	}
	return corefile + "}\n"
}

// TestExpressAnswersLikeTheChain sends the same queries to two processes that differ only in the express path. Their replies are the same,
// and so are their metrics. FuzzExpress compares answers with more options and states.
func TestExpressAnswersLikeTheChain(t *testing.T) {
	t.Run("production", func(t *testing.T) { compareWithChain(t, expressCorefile("shed\n    cache 30", "OPTIONS")) })
	t.Run("every directive that is allowed", func(t *testing.T) { compareWithChain(t, everyDirective(t)) })
}

// cachedTTL matches the rest of the TTL that the plugin cache gives for an answer of the plugin erratic, which has these addresses. It may
// be a second shorter in one process than in the other.
var cachedTTL = regexp.MustCompile(`(?m)^(.+\t)\d+(\tIN\t(?:A\t192\.0\.2\.53|AAAA\t2001:db8::53))$`)

func compareWithChain(t *testing.T, corefile string) {
	t.Helper()
	on, off := startExpress(t, corefile, "express auto"), startExpress(t, corefile, "express off")
	expectLog(t, on.log, "express: on at dns://127.0.0.1:"+on.dns)
	expectLog(t, off.log, "express: off at dns://127.0.0.1:"+off.dns)
	names := strings.Fields(`web.test.svc.clusterset.local. WEB.Test.svc.ClusterSet.local. db.test.svc.clusterset.local. db-0.east.db.test.svc.clusterset.local.
		east.db.test.svc.global. none.test.svc.global. test.svc.global. ns.svc.global. ns.dns.svc.global. ns.dns.clusterset.local. clusterset.local. dns-version.svc.global. svc.global. www.company.global. _http._tcp.web.test.svc.clusterset.local.
		_pg._tcp.db.test.svc.clusterset.local. www.example.org. . a\.b.svc.global.`)
	types := []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeTXT, dns.TypeHTTPS, dns.TypeMX, dns.TypeANY, dns.TypeSOA, dns.TypeDS}
	ednsOptions := []dns.EDNS0{
		&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0011223344556677"}, &dns.EDNS0_PADDING{Padding: make([]byte, 12)},
		&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}, &dns.EDNS0_NSID{Code: dns.EDNS0NSID},
	}
	compare(t, on, off, func(random *rand.Rand) *dns.Msg {
		q := new(dns.Msg).SetQuestion(names[random.IntN(len(names))], types[random.IntN(len(types))])
		q.RecursionDesired, q.CheckingDisabled, q.AuthenticatedData = random.IntN(2) == 0, random.IntN(8) == 0, random.IntN(8) == 0
		if random.IntN(2) == 0 {
			q.SetEdns0(uint16(random.IntN(5000)), random.IntN(2) == 0) //nolint:gosec // small
			if random.IntN(4) == 0 {
				q.IsEdns0().Option = []dns.EDNS0{ednsOptions[random.IntN(4)], ednsOptions[random.IntN(4)]}
			}
		}
		return q
	})
}

// compare sends random queries, some of them broken, to both servers. Replies and what is counted are the same.
func compare(t *testing.T, on, off *expressServer, query func(*rand.Rand) *dns.Msg) {
	t.Helper()
	before := [2]map[string]float64{on.counts(t), off.counts(t)}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // for questions
	var sockets [2][2]*dns.Conn
	for i, network := range []string{"udp", "tcp"} {
		sockets[i] = [2]*dns.Conn{dial(t, network, on.dns), dial(t, network, off.dns)}
	}
	for i := range 2500 {
		packet, err := query(random).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(10) == 0 {
			packet[2+random.IntN(len(packet)-2)] ^= 1 << random.IntN(8)
			packet[2] &^= 0x80 // a response gets no reply
		}
		var got [2]string
		for j, socket := range sockets[random.IntN(2)] {
			got[j] = cachedTTL.ReplaceAllString(exchange(t, socket, packet), "${1}by the clock$2")
		}
		if got[0] != got[1] {
			t.Fatalf("question %d, %x:\nexpress %s\nchain %s", i, packet, got[0], got[1])
		}
	}
	kube.Eventually(t, func() error { return sameCounts(before, [2]map[string]float64{on.counts(t), off.counts(t)}) })
}

// What stands before clusterset in the chain decides, not only the words of the server block: CoreDNS adds the handler for ACME's challenges to
// all blocks, and another plugin.cfg has another order.
func TestExpressIsOffBehindAHandlerThatAnswers(t *testing.T) {
	const acme = `tls://other.test:PORT {
    bind 127.0.0.1
    tls {
        acme web.test.svc.clusterset.local
        ca https://127.0.0.1:1/directory
        storage DIR
    }
}
`
	for _, c := range []struct {
		name, behind, directive, block, answer, reason string
		on                                             bool
	}{
		{"acme in another block", "", "", acme, "10.42.0.1", "tls has a handler before clusterset, which may have to see every query", false},
		{"another order", "file", "file DIR/zone clusterset.local", "", "10.9.9.9", "file has a handler before clusterset, which may have to see every query", false},
		{"another order in which nothing answers before", "tls", "", "", "10.42.0.1", "", true},
		{"another order, with what is imitated behind", "metadata", "", "", "10.42.0.1", "bufsize doesn't stand before clusterset", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(behindOurs, c.behind)
			s := startAt(t, freeport.For(t), expressCorefile(c.directive, "")+c.block)
			expectAddress(t, s.dns, "web.test.svc.clusterset.local.", c.answer)
			expectLog(t, s.log, c.reason)
			s.expectGauges(t, c.on, "127.0.0.1:DNS")
		})
	}
}

// A server may be bound to all addresses of both families. A client accepts a reply only from the address that it asked.
func TestExpressRepliesLeaveFromTheAddressAsked(t *testing.T) {
	s := startAt(t, freeport.For(t), strings.Replace(expressCorefile("", ""), "bind 127.0.0.1\n", "\n", 1))
	expectAddress(t, s.dns, "web.test.svc.clusterset.local.", "10.42.0.1")
	expectLog(t, s.log, "express: on at dns://:"+s.dns)
	for _, ip := range []string{"127.0.0.1", "127.0.0.2", "127.1.2.3", "::1"} {
		l, err := net.ListenPacket("udp", net.JoinHostPort(ip, "0"))
		if err != nil {
			t.Logf("no %s here: %v", ip, err)
			continue
		}
		l.Close()
		for name, want := range map[string]string{"web.test.svc.clusterset.local.": "10.42.0.1", "www.example.org.": "192.0.2.53"} {
			m, _, err := (&dns.Client{Timeout: soon}).Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort(ip, s.dns))
			if err != nil || len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != want {
				t.Errorf("%s asked for %s: %v, want %s in\n%v", ip, name, err, want, m)
			}
		}
	}
}

// The plugins of other blocks at the address see the same clients as without the express path.
func TestOtherBlocksSeeTheirClients(t *testing.T) {
	const corefile = `clusterset.local:DNS {
    clusterset {
        manifests OBJECTS
        startup_timeout 30s
        OPTIONS
    }
}
acl.test:DNS {
    acl {
        block net 127.0.0.2/32
    }
    erratic {
        drop 0
    }
}
whoami.test:DNS {
    log . "client {remote} of {name}"
    whoami
}
`
	for _, option := range []string{"auto", "off"} {
		s := startAt(t, freeport.For(t), strings.Replace(corefile, "OPTIONS", "express "+option, 1))
		expectAddress(t, s.dns, "web.test.svc.clusterset.local.", "10.42.0.1")
		expectLog(t, s.log, "express: "+map[string]string{"auto": "on", "off": "off"}[option]+" at dns://:"+s.dns)
		for from, rcode := range map[string]int{"127.0.0.1": dns.RcodeSuccess, "127.0.0.2": dns.RcodeRefused} {
			client := &dns.Client{Timeout: soon, Dialer: &net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}}
			conn, err := client.Dial("127.0.0.1:" + s.dns)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			m, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion("acl.test.", dns.TypeA), conn)
			if err != nil || m.Rcode != rcode {
				t.Errorf("express %s: acl says to %s: %v, %v", option, from, m, err)
			}
			m, _, err = client.ExchangeWithConn(new(dns.Msg).SetQuestion("whoami.test.", dns.TypeA), conn)
			_, port, _ := net.SplitHostPort(conn.LocalAddr().String())
			if err != nil || !strings.Contains(m.String(), "\tA\t"+from) || !strings.Contains(m.String(), " "+port+" ") {
				t.Errorf("express %s: whoami says to %s: %v, %v", option, conn.LocalAddr(), m, err)
			}
			expectLog(t, s.log, "client "+from+" of whoami.test.")
		}
	}
}

// sameCounts compares what the express path and the chain have counted since before.
func sameCounts(before, after [2]map[string]float64) error {
	var problems []string
	for name := range after[0] {
		after[1][name] += 0 // a series that only one of them has counts as zero in the other
	}
	for name := range after[1] {
		if express, chain := after[0][name]-before[0][name], after[1][name]-before[1][name]; express != chain {
			problems = append(problems, fmt.Sprintf("%s: express counts %v, the chain %v", name, express, chain))
		}
	}
	if problems != nil {
		return errors.New(strings.Join(problems, "\n"))
	}
	return nil
}

// exchange returns a reply as text, without the differences that are allowed: the serial, which follows the clock, and the order of
// records.
func exchange(t *testing.T, conn *dns.Conn, packet []byte) string {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(packet); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, dns.MaxMsgSize)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatalf("%x: %v", packet, err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(b[:n]); err != nil {
		t.Fatalf("%x: %v", b[:n], err)
	}
	for _, rrs := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range rrs {
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
		}
		slices.SortFunc(rrs, func(a, b dns.RR) int { return strings.Compare(a.String(), b.String()) })
	}
	return fmt.Sprintf("%d bytes\n%s", n, m)
}

func dial(t *testing.T, network, port string) *dns.Conn {
	t.Helper()
	conn, err := net.Dial(network, "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &dns.Conn{Conn: conn}
}

// counts returns the counters of queries and the buckets of histograms, except for histograms of time. Hits and misses of the plugin cache
// are left out, too, because they depend on when an entry expires.
func (s *expressServer) counts(t *testing.T) map[string]float64 {
	t.Helper()
	counts := map[string]float64{}
	for line := range strings.Lines(metricsText(t, s.metrics)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(name, "coredns_dns_") && !strings.HasPrefix(name, "coredns_clusterset_answers") && !strings.HasPrefix(name, "coredns_shed") && !strings.HasPrefix(name, "coredns_cache_requests") ||
			strings.HasPrefix(name, "coredns_dns_request_duration_seconds") && !strings.Contains(name, "_count") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		counts[strings.ReplaceAll(name, s.dns, "PORT")] = n
	}
	return counts
}

func metricsText(t *testing.T, port string) string {
	t.Helper()
	body, err := (&fleet.Metrics{Addr: "127.0.0.1:" + port}).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// expectAddress waits until a server answers with that address, and returns how many replies it sent.
func expectAddress(t *testing.T, port, name, ip string) (answered int) {
	t.Helper()
	kube.Eventually(t, func() error {
		m, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		answered++
		for _, rr := range m.Answer {
			if a, ok := rr.(*dns.A); ok && a.A.String() == ip {
				return nil
			}
		}
		return fmt.Errorf("got %v, want %s", m.Answer, ip)
	})
	return answered
}

func expectLog(t *testing.T, log *process.Output, text string) {
	t.Helper()
	kube.Eventually(t, func() error {
		if !strings.Contains(log.String(), text) {
			return fmt.Errorf("no %q in\n%s", text, log)
		}
		return nil
	})
}
