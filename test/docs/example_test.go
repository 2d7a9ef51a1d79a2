package docs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

const exampleUpstream = `. {
    hosts {
        192.0.2.80 www.example.org
        192.0.2.81 www.company.global
    }
}
`

// TestCorefileExampleAsChain asks through every plugin of corefile.example. What clusterset says must reach the client as it
// said it.
func TestCorefileExampleAsChain(t *testing.T) {
	plane := startShop(t)
	plane.Apply(t, []byte(`
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata: {name: nginx, namespace: default}
spec:
  type: ClusterIP
  ports: [{name: http, protocol: TCP, port: 80}]
  endpoints: [{addresses: [10.5.0.1], cluster: xicheng}]
`))
	binary := binary(t, "coredns")
	upstreamPort := freeport.For(t)
	upstream := start(t, binary, strings.Replace(exampleUpstream, "{", "{\n    bind 127.0.0.1", 1), upstreamPort)
	example, port := localised(t, read(t, filepath.Join(root, "corefile.example")), plane.Kubeconfig(), upstream)

	plane.StopAPIServer()
	addr := start(t, binary, example, port)
	const notReady = `SERVFAIL, EDE 14 "clusterset: waiting for the first sync"`
	expectExample(t, addr, map[string]string{
		"www.example.org.":               "192.0.2.80",
		"www.company.global.":            "192.0.2.81", // .global is a public top-level domain, of which svc.global is ours
		"web.shop.svc.clusterset.local.": notReady,
		"nginx.default.svc.global.":      notReady,
	})
	expectExample(t, addr, map[string]string{"web.shop.svc.clusterset.local.": notReady}) // again: a cache repeats it without the reason

	if err := plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := 0
	kube.Eventually(t, 2*time.Minute, func() error {
		if _, err := askExample(addr, "web.shop.svc.clusterset.local."); err != nil { // what a cache would hold
			return err
		}
		fresh++ // a name that no cache can hold says when the server knows
		if got, err := askExample(addr, fmt.Sprintf("n%d.shop.svc.clusterset.local.", fresh)); err != nil || got != "NXDOMAIN" {
			return fmt.Errorf("got %s %s, want NXDOMAIN", got, fmt.Sprint(err))
		}
		return nil
	})
	if got, err := askExample(addr, "web.shop.svc.clusterset.local."); err != nil || got != "10.42.0.1 TTL 5" {
		t.Errorf("after the first sync: got %s %v, want 10.42.0.1 TTL 5", got, err)
	}

	expectExample(t, addr, map[string]string{
		"nginx.default.svc.global.":   "10.5.0.1 TTL 5",
		"nothing.default.svc.global.": "NXDOMAIN",
		"www.company.global.":         "192.0.2.81",
	})

	brief, port := localised(t, read(t, filepath.Join(root, "corefile.example")), plane.Kubeconfig(), upstream)
	addr = start(t, binary, strings.Replace(brief, "        location", "        ttl 1\n        location", 1), port)
	expectExample(t, addr, map[string]string{"web.shop.svc.clusterset.local.": "10.42.0.1 TTL 1"})
}

// expectExample waits until the answers begin with those wanted.
func expectExample(t *testing.T, addr string, want map[string]string) {
	t.Helper()
	kube.Eventually(t, time.Minute, func() error {
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

// askExample returns the address and TTL that a client with EDNS gets, or the reason why there is none.
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
