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

// What stands before clusterset in the chain decides, not only the words of the server block: CoreDNS adds the handler for ACME's challenges to
// all blocks, and another plugin.cfg has another order.
func TestExpressIsOffBehindAHandlerThatAnswers(t *testing.T) {
	const acme = `tls://other.test:OTHER {
    bind 127.0.0.1
    tls {
        acme web.test.svc.clusterset.local
        ca https://127.0.0.1:1/directory
        storage DIR
    }
}
`
	for _, c := range []struct{ name, behind, directive, block, reason string }{
		{"acme in another block", "", "", acme, "tls has a handler before clusterset, which may have to see every query"},
		{"another order", "file", "file DIR/zone clusterset.local", "", "file has a handler before clusterset, which may have to see every query"},
		{"another order in which nothing answers before", "tls", "", "", ""},
		{"another order, with what is imitated behind", "metadata", "", "", "bufsize doesn't stand before clusterset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.behind != "" {
				t.Setenv(behindOurs, c.behind)
			}
			dir, objects := t.TempDir(), t.TempDir()
			for path, text := range map[string]string{
				filepath.Join(objects, "objects.yaml"): expressObjects,
				filepath.Join(dir, "zone"):             "$ORIGIN clusterset.local.\n@ 60 SOA ns.dns hostmaster 1 60 60 60 60\nweb.test.svc 60 A 10.9.9.9\n",
			} {
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			port, metrics := freeport.For(t), freeport.For(t)
			corefile := expressCorefile(port, metrics, objects, c.directive, "") + c.block
			s := startCoreDNS(t, strings.NewReplacer("DIR", dir, "OTHER", freeport.For(t)).Replace(corefile))
			says, gauge := "off", 0
			if c.reason == "" {
				says, gauge = "on", 1
			}
			if c.directive == "" {
				expectAddress(t, port, "web.test.svc.clusterset.local.", "10.42.0.1")
			} else {
				expectAddress(t, port, "web.test.svc.clusterset.local.", "10.9.9.9")
			}
			expectLog(t, s.log, fmt.Sprintf("express: %s at dns://127.0.0.1:%s", says, port))
			expectLog(t, s.log, c.reason)
			want := fmt.Sprintf("coredns_clusterset_express_enabled{server=\"dns://127.0.0.1:%s\"} %d\n", port, gauge)
			kube.Eventually(t, func() error {
				if text := metricsText(t, metrics); !strings.Contains(text, want) {
					return fmt.Errorf("no %q in\n%s", want, text)
				}
				return nil
			})
		})
	}
}
