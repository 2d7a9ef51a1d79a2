package main

import (
	"fmt"
	"os"
	"path/filepath"
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
			says := "express: off at dns://127.0.0.1:%s: " + call + ": operation not permitted"
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(expressObjects), 0o600); err != nil {
				t.Fatal(err)
			}
			port, metrics := freeport.For(t), freeport.For(t)
			s := startCoreDNS(t, expressCorefile(port, metrics, dir, "multisocket 2", "ttl 1"))
			expectAddress(t, port, "web.test.svc.clusterset.local.", "10.42.0.1")
			expectLog(t, s.log, fmt.Sprintf(says, port))
			stop := askAlong(t, port)
			for i := range 200 {
				expectAddress(t, port, fmt.Sprintf("db-%d.east.db.test.svc.global.", i%3), fmt.Sprintf("10.3.0.%d", i%3+1))
			}
			stop()
			if m, _, err := (&dns.Client{Net: "tcp", Timeout: soon}).Exchange(new(dns.Msg).SetQuestion("web.test.svc.clusterset.local.", dns.TypeA), "127.0.0.1:"+port); err != nil || len(m.Answer) != 1 {
				t.Errorf("over TCP: %v, %v", m, err)
			}
			gauge := fmt.Sprintf("coredns_clusterset_express_enabled{server=\"dns://127.0.0.1:%s\"} 0\n", port)
			answers := "coredns_clusterset_express_answers_total{"
			if text := metricsText(t, metrics); !strings.Contains(text, gauge) || strings.Contains(text, answers) {
				t.Errorf("no %q, or a %q, in\n%s", gauge, answers, text)
			}
			s.reload(t, expressCorefile(port, metrics, dir, "multisocket 2", "ttl 5"))
			expectTTL(t, port, 5)
			const starts = 2 // each start is a new attempt
			kube.Eventually(t, func() error {
				if n := strings.Count(s.log.String(), fmt.Sprintf(says, port)); n != starts {
					return fmt.Errorf("said %d times, want %d:\n%s", n, starts, s.log.String())
				}
				return nil
			})
		})
	}
}
