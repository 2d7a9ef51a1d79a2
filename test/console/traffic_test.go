package console

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/ownnet"
	"github.com/clusterset/clusterset/test/process"
)

// A cluster's panel shows what its DNS servers answer. The console reads their metrics through the cluster's API server, which connects to no
// loopback address, so the server has one of this test's own network.
func TestTraffic(t *testing.T) {
	f := theFleet(t)
	dns, metrics := startDNS(t)
	plane := f.members["beijing"].Plane
	pod := fmt.Appendf(nil, `
apiVersion: v1
kind: Namespace
metadata: {name: clusterset-system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: clusterset-system, name: dns}
---
apiVersion: v1
kind: Pod
metadata: {namespace: clusterset-system, name: dns, labels: {app.kubernetes.io/component: dns}}
spec:
  nodeName: node-1
  serviceAccountName: dns
  containers:
    - name: coredns
      image: clusterset/clusterset
      command: [/coredns]
      env: [{name: CLUSTERSET_CLUSTER, value: beijing}]
      ports: [{name: metrics, containerPort: %d}]
`, metrics.Port())
	plane.Apply(t, pod)
	t.Cleanup(func() {
		if err := plane.DeleteContext(context.Background(), pod); err != nil {
			t.Error(err)
		}
	})
	plane.ApplyStatus(t, fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {namespace: clusterset-system, name: dns}
status: {phase: Running, podIP: %[1]s, podIPs: [{ip: %[1]s}], conditions: [{type: Ready, status: "True"}]}
`, metrics.Addr()))
	p := open(t, f.console(t, "beijing"), "#/map?cluster=beijing")
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", dns.String())
	}}
	ask := func() {
		if _, err := resolver.LookupNetIP(t.Context(), "ip4", "db.shop.svc.clusterset.local."); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	p.until(`/Names answered with addresses by 1 DNS server/.test(document.querySelector(".panel").innerText)`)
	ask()
	p.until(`/per second in the last \d+ s/.test(document.querySelector(".panel").innerText)`)
	p.until(`/endpoints of its zone\s+[\d.]+\/s, 2 \(100 %\)/.test(document.querySelector(".panel").innerText)`)
	p.accessible()
}

// startDNS starts a server of the example's names until the end of the test. It returns the addresses of the server and of its metrics.
func startDNS(t *testing.T) (dns, metrics netip.AddrPort) {
	t.Helper()
	dns = netip.MustParseAddrPort("127.0.0.1:" + freeport.For(t))
	metrics = netip.MustParseAddrPort(ownnet.Address.String() + ":" + freeport.For(t))
	manifests, err := filepath.Abs(filepath.Join(root, "examples", "manifests"))
	if err != nil {
		t.Fatal(err)
	}
	corefile := filepath.Join(t.TempDir(), "Corefile")
	text := fmt.Sprintf(`
clusterset.local:%d {
    bind %s
    prometheus %s
    clusterset {
        manifests %s
        location xicheng beijing north
    }
}
`, dns.Port(), dns.Addr(), metrics, manifests)
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	process.StartFor(t, exec.CommandContext(t.Context(), binaries(t).CoreDNS, "-conf", corefile), "coredns")
	kube.Eventually(t, func() error {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", metrics.String())
		if err != nil {
			return err
		}
		return c.Close()
	})
	return dns, metrics
}
