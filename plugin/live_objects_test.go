package clusterset_test

import (
	"fmt"
	"strings"
)

// liveKinds are the watched kinds, as named in metrics.
var liveKinds = []string{"ServiceImport", "EndpointSlice", "GlobalService", "MemberCluster", "Reachability"}

// Manifests for the live tests. The fields that a test varies are parameters.

func namespaceYAML(name string) []byte {
	return []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + name + "}}")
}

func importYAML(namespace, name, kind string, ips ...string) []byte {
	return fmt.Appendf(nil, `
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: %s, namespace: %s}
spec:
  type: %s
  ips: [%s]
  ports: [{name: http, protocol: TCP, port: 80}]
`, name, namespace, kind, quoted(ips))
}

// sliceYAML returns an EndpointSlice of a headless service in one cluster. The prefix "!" marks an address whose endpoint
// isn't ready.
func sliceYAML(namespace, name, service, cluster string, addrs ...string) []byte {
	var endpoints strings.Builder
	for _, addr := range addrs {
		addr, unready := strings.CutPrefix(addr, "!")
		fmt.Fprintf(&endpoints, "  - {addresses: [%q], conditions: {ready: %v}}\n", addr, !unready)
	}
	return fmt.Appendf(nil, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %s
  namespace: %s
  labels: {multicluster.kubernetes.io/service-name: %s, multicluster.kubernetes.io/source-cluster: %s}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: 8080}]
endpoints:
%s`, name, namespace, service, cluster, endpoints.String())
}

func globalYAML(namespace, name string, addrs ...string) []byte {
	return fmt.Appendf(nil, `
apiVersion: dns.fabedge.io/v1alpha1
kind: GlobalService
metadata: {name: %s, namespace: %s}
spec:
  type: ClusterIP
  ports: [{name: http, protocol: TCP, port: 80}]
  endpoints: [{cluster: somewhere, addresses: [%s]}]
`, name, namespace, quoted(addrs))
}

func memberYAML(name, zone, region string, drain bool) []byte {
	return fmt.Appendf(nil, `
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: %s}
spec: {zone: %s, region: %s, drain: %v}
`, name, zone, region, drain)
}

func memberStatusYAML(name, phase string) []byte {
	return fmt.Appendf(nil, `
apiVersion: clusterset.dev/v1alpha1
kind: MemberCluster
metadata: {name: %s}
status: {phase: %s}
`, name, phase)
}

// reachabilityYAML says which clusters can't be reached.
func reachabilityYAML(unreachable ...string) []byte {
	var clusters []string
	for _, name := range unreachable {
		clusters = append(clusters, fmt.Sprintf("{name: %s, reachable: 'False', reason: NoAnswer, since: '2026-01-01T00:00:00Z', reached: true}", name))
	}
	return fmt.Appendf(nil, "{apiVersion: clusterset.dev/v1alpha1, kind: Reachability, metadata: {name: local}, cluster: here, stamp: '2026-01-01T00:00:00.000000Z', clusters: [%s]}",
		strings.Join(clusters, ", "))
}

func quoted(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return `"` + strings.Join(words, `", "`) + `"`
}
