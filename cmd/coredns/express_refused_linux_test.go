package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// TestExpressWhereTheSystemRefuses runs servers under seccomp profiles that refuse a system call. The log reports that once per start or
// reload, even if CoreDNS has several sockets, and the plugin chain answers every query, over TCP too.
func TestExpressWhereTheSystemRefuses(t *testing.T) {
	for _, call := range []string{"recvmmsg", "sendmmsg"} {
		t.Run(call, func(t *testing.T) {
			t.Setenv(withoutCall, call)
			s := startAt(t, freeport.For(t), expressCorefile("multisocket 2", "ttl 1"))
			says := "express: off at dns://127.0.0.1:" + s.dns + ": " + call + ": operation not permitted"
			expectAddress(t, s.dns, "web.test.svc.clusterset.local.", "10.42.0.1")
			expectLog(t, s.log, says)
			for i := range 200 {
				network := []string{"udp", "tcp"}[i%2]
				m, _, err := (&dns.Client{Net: network, Timeout: soon}).Exchange(new(dns.Msg).SetQuestion("db.test.svc.global.", dns.TypeA), "127.0.0.1:"+s.dns)
				if err != nil || len(m.Answer) != 3 {
					t.Errorf("over %s: %v, %v", network, m, err)
				}
			}
			s.expectGauges(t, false, "127.0.0.1:DNS")
			if text := metricsText(t, s.metrics); strings.Contains(text, "coredns_clusterset_express_answers_total{") {
				t.Errorf("the express path answered:\n%s", text)
			}
			s.reload(t, expressCorefile("multisocket 2", "ttl 5"))
			expectTTL(t, s.dns, 5)
			kube.Eventually(t, func() error {
				if n := strings.Count(s.log.String(), says); n != 2 { // each start is a new attempt
					return fmt.Errorf("said %d times, want twice:\n%s", n, s.log.String())
				}
				return nil
			})
		})
	}
}
