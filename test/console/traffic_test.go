package console

import (
	"fmt"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/ownnet"
)

// farDB is a headless service of another region.
const farDB = `
apiVersion: v1
kind: Namespace
metadata: {name: far}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: far}
spec: {clusterIP: None, ports: [{name: sql, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: db-1, namespace: far, labels: {kubernetes.io/service-name: db}}
addressType: IPv4
ports: [{name: sql, port: 5432}]
endpoints: [{addresses: [10.1.0.9]}]
---
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceExport
metadata: {name: db, namespace: far}
`

// dnsPod is the pod of a DNS server, as the kubelet reports it.
const dnsPod = `
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: far, name: dns}
---
apiVersion: v1
kind: Pod
metadata: {namespace: far, name: dns, labels: {app.kubernetes.io/component: dns}}
spec:
  nodeName: node-1
  serviceAccountName: dns
  containers: [{name: coredns, image: example.invalid/coredns, command: [/coredns], env: [{name: CLUSTERSET_CLUSTER, value: beijing}]}]
`

// What share of answers left the zone and the region is on the page of a service, and in clusterset status, as the DNS servers count it (rule A65). The
// API server connects to no loopback address, so it gets their metrics at the address of this test's network.
func TestHowFarAnswersLed(t *testing.T) {
	f := theFleet(t)
	beijing, shanghai := f.Member("beijing"), f.Member("shanghai")
	target := &url.URL{Scheme: "http", Host: beijing.DNS.Metrics.Addr}
	l, err := net.Listen("tcp", netip.AddrPortFrom(ownnet.Address, 9153).String())
	if err != nil {
		t.Fatal(err)
	}
	relay := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	relay.Listener.Close()
	relay.Listener = l
	relay.Start()
	t.Cleanup(relay.Close)

	const name = "db.far.svc.clusterset.local"
	beijing.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: far}}", dnsPod)
	shanghai.Apply(farDB)
	t.Cleanup(func() {
		shanghai.Remove(farDB)
		beijing.Remove(dnsPod)
		beijing.DNS.Eventually(name, "A", "NXDOMAIN")
	})
	beijing.Plane.ApplyStatus(t, fmt.Appendf(nil, `
apiVersion: v1
kind: Pod
metadata: {namespace: far, name: dns}
status: {phase: Running, podIP: %[1]s, podIPs: [{ip: %[1]s}], conditions: [{type: Ready, status: "True"}]}
`, ownnet.Address))
	beijing.DNS.Eventually(name, "A", "10.1.0.9")
	kube.Eventually(t, func() error {
		out, err := clusterset(t, "status", "--kubeconfig", f.kubeconfig, "--context", "beijing", "-o", "wide").CombinedOutput()
		if text := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(text, "far/db 1 100.0% 100.0% 0.0%") || !strings.Contains(text, "Answers of 1 DNS server here") {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
	p := open(t, f.console("beijing", "shanghai"), "#/service/far/db")
	p.until(found("#led + div tr", "beijing") + `?.innerText.replace(/\s+/g, " ") === "beijing 1 100.0% 100.0% 0.0%"`)
	p.accessible()
}
