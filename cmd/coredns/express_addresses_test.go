package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
)

// TestExpressRepliesLeaveFromTheAddressAsked queries a server that is bound to all addresses of both families. A client accepts a reply
// only from the address that it queried.
func TestExpressRepliesLeaveFromTheAddressAsked(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "objects.yaml"), []byte(expressObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freeport.For(t)
	s := startCoreDNS(t, fmt.Sprintf(".:%s {\n    clusterset clusterset.local {\n        manifests %s\n    }\n    erratic {\n        drop 0\n    }\n}\n", port, dir))
	expectAddress(t, port, "web.test.svc.clusterset.local.", "10.42.0.1")
	expectLog(t, s.log, "express: on at dns://:"+port)
	for _, ip := range []string{"127.0.0.1", "127.0.0.2", "127.1.2.3", "::1"} {
		if ip == "::1" {
			l, err := net.ListenPacket("udp", "[::1]:0")
			if err != nil {
				t.Logf("no IPv6 here: %v", err)
				continue
			}
			l.Close()
		}
		for name, want := range map[string]string{"web.test.svc.clusterset.local.": "10.42.0.1", "www.example.org.": "192.0.2.53"} {
			m, _, err := (&dns.Client{Timeout: soon}).Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), net.JoinHostPort(ip, port))
			if err != nil {
				t.Errorf("%s asked for %s: %v", ip, name, err)
				continue
			}
			if len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != want {
				t.Errorf("%s asked for %s: want %s in\n%v", ip, name, want, m)
			}
		}
	}
}
