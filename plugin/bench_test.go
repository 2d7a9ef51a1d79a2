package clusterset

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// Measures ServeDNS alone. hack/bench compares the plugin with others.
func BenchmarkServeDNS(b *testing.B) {
	var objects []index.Object
	for i := range 10000 {
		objects = append(objects, vip(fmt.Sprintf("svc-%d", i), fmt.Sprintf("10.1.%d.%d", i/256, i%256)))
	}
	for _, n := range []int{10, 100} {
		objects = append(objects, headless(fmt.Sprintf("hl%d", n), n)...)
	}
	c := newTestPlugin(b, objects...)
	for _, bb := range []struct {
		name, qname string
		qtype       uint16
	}{
		{"A", "svc-N.ns.svc.clusterset.local.", dns.TypeA},
		{"SRV", "_http._tcp.svc-N.ns.svc.clusterset.local.", dns.TypeSRV},
		{"NODATA", "svc-N.ns.svc.clusterset.local.", dns.TypeAAAA},
		{"NXDOMAIN", "nope-N.ns.svc.clusterset.local.", dns.TypeA},
		{"headless10", "hl10.ns.svc.clusterset.local.", dns.TypeA},
		{"headless100", "hl100.ns.svc.clusterset.local.", dns.TypeA},
		{"headless10SRV", "_http._tcp.hl10.ns.svc.clusterset.local.", dns.TypeSRV},
		{"headless100SRV", "_http._tcp.hl100.ns.svc.clusterset.local.", dns.TypeSRV},
	} {
		questions := make([]*dns.Msg, 1000)
		for i := range questions {
			questions[i] = new(dns.Msg).SetQuestion(strings.Replace(bb.qname, "N", strconv.Itoa(i), 1), bb.qtype)
		}
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			w := &discard{}
			for i := 0; b.Loop(); i++ {
				_, _ = c.ServeDNS(context.Background(), w, questions[i%len(questions)])
			}
		})
	}
}
