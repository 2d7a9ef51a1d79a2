package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// TestExpressWhereTheSystemRefuses runs servers under seccomp profiles that refuse a system call or a socket option. The log reports that
// once per start or reload, even if CoreDNS has several sockets, and every query is answered.
func TestExpressWhereTheSystemRefuses(t *testing.T) {
	for _, c := range []struct {
		call, says string
		on         bool
	}{
		{"recvmmsg", "express: off at dns://127.0.0.1:%s: recvmmsg: operation not permitted", false},
		{"sendmmsg", "express: off at dns://127.0.0.1:%s: sendmmsg: operation not permitted", false},
		{"BPF", "express: 127.0.0.1:%s: the kernel refuses the BPF program", true},
	} {
		t.Run(c.call, func(t *testing.T) {
			t.Setenv(withoutCall, c.call)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(expressObjects), 0o600); err != nil {
				t.Fatal(err)
			}
			port, metrics := freeport.For(t), freeport.For(t)
			s := startCoreDNS(t, expressCorefile(port, metrics, dir, "multisocket 2", "ttl 1"))
			expectAddress(t, port, "web.test.svc.clusterset.local.", "10.42.0.1")
			expectLog(t, s.log, fmt.Sprintf(c.says, port))
			stop := askAlong(t, port)
			for i := range 200 {
				expectAddress(t, port, fmt.Sprintf("db-%d.east.db.test.svc.global.", i%3), fmt.Sprintf("10.3.0.%d", i%3+1))
			}
			stop()
			gauge := fmt.Sprintf("coredns_clusterset_express_enabled{server=\"dns://127.0.0.1:%s\"} %d\n", port, map[bool]int{true: 1}[c.on])
			if text := metricsText(t, metrics); !strings.Contains(text, gauge) {
				t.Errorf("no %q in\n%s", gauge, text)
			}
			starts := 1
			if !c.on {
				s.reload(t, expressCorefile(port, metrics, dir, "multisocket 2", "ttl 5"))
				expectTTL(t, port, 5)
				starts = 2 // each start is a new attempt
			}
			kube.Eventually(t, soon, func() error {
				if n := strings.Count(s.log.String(), fmt.Sprintf(c.says, port)); n != starts {
					return fmt.Errorf("said %d times, want %d:\n%s", n, starts, s.log.String())
				}
				return nil
			})
		})
	}
}
