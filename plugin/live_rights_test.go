package clusterset_test

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	clusterset "github.com/clusterset/clusterset/plugin"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// liveMissingRights starts a server whose identity has no permissions, and grants the ones that its log asks for, one rule at
// a time. Until the server has them all, it can't tell which names don't exist.
func liveMissingRights(t *testing.T, control *kube.ControlPlane) {
	lines := recordLog(t)
	control.Apply(t, namespaceYAML("rights"), importYAML("rights", "web", "ClusterSetIP", "10.0.0.1"))
	kubeconfig, err := control.KubeconfigFor("dns-without-rights")
	if err != nil {
		t.Fatal(err)
	}
	s := startLive(t, fmt.Sprintf(`.:0 {
    bind 127.0.0.1
    clusterset clusterset.local svc.global {
        kubeconfig %s
        startup_timeout 100ms
    }
}
`, kubeconfig))
	const web, missing = "A web.rights.svc.clusterset.local", "A missing.rights.svc.clusterset.local"
	lines.expect(t, "not synced after 100ms", "SERVFAIL")

	// The binding is complete from the start. Only the role's rules are added one by one.
	control.Apply(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dns-without-rights}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dns-without-rights}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dns-without-rights}]
`))
	stop := s.askAlong(t, map[string][]string{web: {"SERVFAIL"}, missing: {"SERVFAIL"}})
	rules := ""
	for i, r := range []struct{ group, resource, kind string }{
		{"multicluster.x-k8s.io", "serviceimports", "ServiceImport"},
		{"discovery.k8s.io", "endpointslices", "EndpointSlice"},
		{"dns.fabedge.io", "globalservices", "GlobalService"},
		{"clusterset.dev", "memberclusters", "MemberCluster"},
	} {
		lines.expect(t, r.kind, "forbidden", "grant get, list and watch on "+r.resource+"."+r.group)
		expectMetric(t, 0, "source_synced", "source", "kubernetes", "kind", r.kind)
		if metric(t, "source_errors_total", "source", "kubernetes", "kind", r.kind) == 0 {
			t.Errorf("the errors of %s are not counted", r.kind)
		}
		if i == 3 {
			stop() // the last rule makes it answer
		}
		rules += fmt.Sprintf("  - {apiGroups: [%s], resources: [%s], verbs: [get, list, watch]}\n", r.group, r.resource)
		control.Apply(t, []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: dns-without-rights}\nrules:\n"+rules))
		expectMetric(t, 1, "source_synced", "source", "kubernetes", "kind", r.kind)
	}
	s.expect(t, map[string]string{web: "10.0.0.1", missing: "NXDOMAIN"})
}

// liveOwnService starts a server as if in a pod. The server finds the Service that sends port 53 to it, and uses that
// Service's address in the glue of its NS records in each server block.
func liveOwnService(t *testing.T, control *kube.ControlPlane) {
	mine := outerAddr(t)
	namespaceFile := filepath.Join(t.TempDir(), "namespace")
	writeFile(t, namespaceFile, []byte("own-service\n"))
	clusterset.SetNamespaceFile(t, namespaceFile)
	control.Apply(t, namespaceYAML("own-service"))
	port := freeport.For(t)
	corefile := withSource(`clusterset.local:`+port+` {
    bind 127.0.0.1
    clusterset
}
global:`+port+` {
    bind 127.0.0.1
    clusterset
}
`, "kubeconfig "+control.Kubeconfig())
	s := startLive(t, corefile)
	const glue, second = "A ns.dns.clusterset.local", "A ns.dns.global"
	s.expect(t, map[string]string{glue: "127.0.0.1", second: "127.0.0.1"})
	// A pod only becomes an endpoint once it is ready, which is after its start.
	control.Apply(t, []byte(`
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: own-service}
spec: {clusterIP: 10.96.0.53, ports: [{name: dns, port: 53, protocol: UDP}, {name: dns-tcp, port: 53, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns-1, namespace: own-service, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{name: dns, port: `+port+`, protocol: UDP}, {name: dns-tcp, port: `+port+`, protocol: TCP}]
endpoints: [{addresses: ["`+mine+`"]}]
---
apiVersion: v1
kind: Service
metadata: {name: metrics, namespace: own-service}
spec: {clusterIP: 10.96.0.54, ports: [{name: metrics, port: 9153, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: metrics-1, namespace: own-service, labels: {kubernetes.io/service-name: metrics}}
addressType: IPv4
ports: [{name: metrics, port: 9153, protocol: TCP}]
endpoints: [{addresses: ["`+mine+`"]}]
`))
	s.expect(t, map[string]string{glue: "10.96.0.53", second: "10.96.0.53"})
	// A server that starts now finds the Service before its second block has started.
	if err := s.reload(corefile); err != nil {
		t.Fatal(err)
	}
	s.expect(t, map[string]string{glue: "10.96.0.53", second: "10.96.0.53"})
}

// outerAddr returns an address of this machine that is valid in an EndpointSlice.
func outerAddr(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr().String()
		}
	}
	t.Skip("this machine has no IPv4 address but loopback")
	return ""
}
