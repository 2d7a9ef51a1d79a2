package docs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

const exampleUpstream = ". {\n    hosts {\n        192.0.2.80 www.example.org\n        192.0.2.81 www.company.global\n    }\n}\n"

// TestCorefileExampleAsChain queries a server with all plugins of corefile.example. The other plugins must pass on the answers of
// clusterset unchanged.
func TestCorefileExampleAsChain(t *testing.T) {
	plane := startShop(t)
	plane.Apply(t, []byte("{apiVersion: dns.fabedge.io/v1alpha1, kind: GlobalService, metadata: {name: nginx, namespace: default}, "+
		"spec: {type: ClusterIP, ports: [{port: 80}], endpoints: [{addresses: [10.5.0.1], cluster: xicheng}]}}"))
	upstream := start(t, exampleUpstream, "", "").DNS
	example := read(t, filepath.Join(root, "corefile.example"))
	plane.StopAPIServer()
	addr := start(t, example, plane.Kubeconfig(), upstream).DNS
	const notReady = `SERVFAIL, EDE 14 "clusterset: waiting for the first sync"`
	expectExample(t, addr, map[string]string{
		"www.example.org.":               "192.0.2.80",
		"www.company.global.":            "192.0.2.81", // .global is a public top-level domain; only svc.global belongs to clusterset
		"web.shop.svc.clusterset.local.": notReady,
		"nginx.default.svc.global.":      notReady,
	})
	expectExample(t, addr, map[string]string{"web.shop.svc.clusterset.local.": notReady}) // a cached answer would lack the reason

	if err := plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := 0
	kube.Eventually(t, func() error {
		_, err := askExample(addr, "web.shop.svc.clusterset.local.") // gives a cache the chance to keep the SERVFAIL
		// A new name, which no cache has, shows when the server is ready.
		fresh++
		got, err2 := askExample(addr, fmt.Sprintf("n%d.shop.svc.clusterset.local.", fresh))
		if got != "NXDOMAIN" {
			err2 = errors.Join(err2, fmt.Errorf("got %q, want NXDOMAIN", got))
		}
		return errors.Join(err, err2)
	})
	if got, err := askExample(addr, "web.shop.svc.clusterset.local."); err != nil || got != "10.42.0.1 TTL 5" {
		t.Errorf("after the first sync: got %s %v, want 10.42.0.1 TTL 5", got, err)
	}
	expectExample(t, addr, map[string]string{
		"nginx.default.svc.global.":   "10.5.0.1 TTL 5",
		"nothing.default.svc.global.": "NXDOMAIN",
		"www.company.global.":         "192.0.2.81",
	})

	addr = start(t, strings.Replace(example, "        location", "        ttl 1\n        location", 1), plane.Kubeconfig(), upstream).DNS
	expectExample(t, addr, map[string]string{"web.shop.svc.clusterset.local.": "10.42.0.1 TTL 1"})
}

// expectExample waits until each answer begins with the wanted text.
func expectExample(t *testing.T, addr string, want map[string]string) {
	t.Helper()
	kube.Eventually(t, func() error {
		for name, answer := range want {
			got, err := askExample(addr, name)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(got, answer) {
				return fmt.Errorf("%s: got %s, want %s", name, got, answer)
			}
		}
		return nil
	})
}

// askExample returns the address and TTL that a client with EDNS gets, or the RCODE and the extended error if there is no address.
func askExample(addr, name string) (string, error) {
	r, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA).SetEdns0(1232, false), addr)
	if err != nil {
		return "", err
	}
	if len(r.Answer) == 1 {
		a, ok := r.Answer[0].(*dns.A)
		if !ok {
			return "", fmt.Errorf("%s: %v", name, r)
		}
		return fmt.Sprintf("%s TTL %d", a.A, a.Hdr.Ttl), nil
	}
	text := dns.RcodeToString[r.Rcode]
	for _, option := range r.IsEdns0().Option {
		if ede, ok := option.(*dns.EDNS0_EDE); ok {
			text += fmt.Sprintf(", EDE %d %q", ede.InfoCode, ede.ExtraText)
		}
	}
	return text, nil
}
