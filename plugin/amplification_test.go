package clusterset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	_ "github.com/coredns/coredns/plugin/bufsize" // for the amplification test
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/plugin/express"
)

// The largest answers, in bytes, that docs/reliability.md promises.
const (
	withoutEDNS = 512  // RFC 1035, 4.2.1
	withBufsize = 1232 // the bufsize plugin's limit in corefile.example and in the chart
)

// An attacker who forges a victim's address as the source of a query directs our answer at the victim. The service here is as large as a
// GlobalService can be and has the shortest possible name, so that no answer is larger relative to its query. All host names have the same
// length, so that any ten that max_answers picks give the same size.
func TestAmplificationIsBounded(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("apiVersion: dns.fabedge.io/v1alpha1\nkind: GlobalService\nmetadata: {name: a, namespace: b}\nspec:\n  type: Headless\n  ports: [{name: p, port: 1}]\n  endpoints:\n")
	for i := range 4096 {
		fmt.Fprintf(&b, "  - {addresses: [10.0.%d.%d, 'fd00::%x'], cluster: c, hostname: h%s}\n", i/256, i%256, i+1, strconv.FormatInt(int64(36*36+i), 36))
	}
	writeFile(t, filepath.Join(dir, "objects", "large.yaml"), []byte(b.String()))
	start := func(options, plugins string) *goldenClient {
		s := startLive(t, fmt.Sprintf(".:0 {\n    bind 127.0.0.1\n    %s\n    clusterset global {\n        manifests %s/objects\n        %s\n    }\n}\n", plugins, dir, options))
		s.expect(t, map[string]string{"SRV nothing.global": "NXDOMAIN"}) // everything was read
		return newGoldenClient(t, s)
	}
	small, bare, capped := start("", "bufsize 1232"), start("", ""), start("max_answers 10", "")
	names := []string{"global.", "svc.global.", "b.svc.global.", "a.b.svc.global.", "c.a.b.svc.global.", "h100.c.a.b.svc.global.", "_p._tcp.a.b.svc.global.", "ns.dns.global.", "dns-version.global.", "x.global."}
	types := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeANY, dns.TypeTXT, dns.TypeSOA, dns.TypeNS, dns.TypeMX, dns.TypeDNSKEY, dns.TypeAXFR}
	var worstSmall, worstPlain, worstCapped ratio
	for _, name := range names {
		for _, qtype := range types {
			for _, size := range []int{0, 1, 512, 1232, 4096, 65535} {
				q := new(dns.Msg).SetQuestion(name, qtype)
				if size > 0 {
					q.SetEdns0(uint16(size), true) //nolint:gosec // small
				}
				query, answer := sizes(t, small, q)
				if limit := limitOf(size, withBufsize); answer > limit {
					t.Errorf("%s %s, EDNS %d: %d bytes, more than %d", name, dns.TypeToString[qtype], size, answer, limit)
				}
				worstSmall.take(query, answer)
				if size == 0 {
					worstPlain.take(query, answer)
				}
				worstCapped.take(sizes(t, capped, q))
				// Without bufsize, the plugin respects the size that the client states, up to 4096 bytes.
				if _, answer = sizes(t, bare, q); answer > limitOf(size, express.MaxUDP) {
					t.Errorf("without bufsize, %s %s, EDNS %d: %d bytes", name, dns.TypeToString[qtype], size, answer)
				}
			}
		}
	}
	if worstCapped.answer > 2048 {
		t.Errorf("with max_answers 10, %s", worstCapped)
	}
	doc, err := os.ReadFile("../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []ratio{worstSmall, worstPlain, worstCapped} {
		if !strings.Contains(string(doc), r.String()) {
			t.Errorf("docs/reliability.md doesn't say %q", r)
		}
	}
}

func limitOf(edns, most int) int {
	return min(max(edns, withoutEDNS), most)
}

// ratio holds the sizes of the answer with the highest amplification and of its query.
type ratio struct{ query, answer int }

func (r *ratio) take(query, answer int) {
	if r.query == 0 || answer*r.query > r.answer*query {
		r.query, r.answer = query, answer
	}
}

func (r ratio) String() string {
	return fmt.Sprintf("%d bytes for %d, %.1f times", r.answer, r.query, float64(r.answer)/float64(r.query))
}

// sizes returns the sizes of a query and of its answer. It fails the test if an answer is incomplete but isn't marked as truncated.
func sizes(t *testing.T, client *goldenClient, q *dns.Msg) (query, answer int) {
	t.Helper()
	client.id++
	q.Id = client.id
	r, err := client.exchange(client.udp, q)
	if err != nil {
		t.Fatalf("%s: %v", q.Question[0].String(), err)
	}
	m := r.messages[0]
	if asked := q.Question[0]; asked.Name == "a.b.svc.global." && asked.Qtype == dns.TypeA && r.size <= withBufsize && m.Rcode == dns.RcodeSuccess && len(m.Answer) != 10 && !m.Truncated {
		t.Errorf("%s: %d records of 4096, and no word of it", asked.Name, len(m.Answer))
	}
	return q.Len(), r.size
}
