package docs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// TestCorefileExampleAsChain queries a server with all plugins of corefile.example. The other plugins must pass on the answers of
// clusterset unchanged.
func TestCorefileExampleAsChain(t *testing.T) {
	plane := startShop(t)
	plane.Apply(t, []byte("{apiVersion: dns.fabedge.io/v1alpha1, kind: GlobalService, metadata: {name: nginx, namespace: default}, "+
		"spec: {type: ClusterIP, ports: [{port: 80}], endpoints: [{addresses: [10.5.0.1], cluster: xicheng}]}}"))
	upstream := start(t, ". {\n    hosts {\n        192.0.2.80 www.example.org\n        192.0.2.81 www.company.global\n    }\n}\n", "", "").DNS
	plane.StopAPIServer()
	addr := start(t, read(t, filepath.Join(root, "corefile.example")), plane.Kubeconfig(), upstream).DNS
	expectAnswer(t, addr, "www.example.org", "IN A 192.0.2.80")
	// .global is a public top-level domain; only svc.global belongs to clusterset.
	expectAnswer(t, addr, "www.company.global", "IN A 192.0.2.81")
	for range 2 { // a cached answer would lack the reason
		expectAnswer(t, addr, "web.shop.svc.clusterset.local", "status: SERVFAIL", "EDE: 14 (Not Ready): (clusterset: waiting for the first sync)")
	}
	if err := plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectAnswer(t, addr, "web.shop.svc.clusterset.local", "5 IN A 10.42.0.1")
	expectAnswer(t, addr, "nginx.default.svc.global", "5 IN A 10.5.0.1")
	expectAnswer(t, addr, "nothing.default.svc.global", "status: NXDOMAIN")
}

// expectAnswer waits until the answer to a question, such as "web.shop.svc.clusterset.local SRV", has all the texts, in the form of dig.
func expectAnswer(t *testing.T, addr, question string, texts ...string) {
	t.Helper()
	name, qtype, _ := strings.Cut(question, " ")
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[cmp.Or(qtype, "A")]).SetEdns0(1232, false)
	kube.Eventually(t, func() error {
		r, err := dns.Exchange(m, addr)
		if err != nil {
			return err
		}
		got := strings.Join(strings.Fields(r.String()), " ")
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Errorf("%s: got %s, want %s", question, got, text)
			}
		}
		return nil
	})
}
