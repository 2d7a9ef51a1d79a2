package e2e

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// httpPort is the spec of a Service with one port.
const httpPort = "ports: [{name: http, port: 80, targetPort: 8080}]"

// service returns a Service without a selector. The spec is in YAML's flow style, without its braces.
func service(ns, name, spec string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s}, spec: {%s}}", ns, name, spec)
}

// extending returns a Service that is extended to other clusters. It has a selector, which nothing follows in a cluster without controllers.
func extending(ns, name, spec string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s, annotations: {clusterset.dev/extend: "true"}}, spec: {selector: {app: %s}, %s}}`,
		ns, name, name, spec)
}

// annotated returns a Service with FabDNS's annotation.
func annotated(ns, name, spec string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s, annotations: {fabedge.io/global-service: "true"}}, spec: {%s}}`,
		ns, name, spec)
}

// export returns a ServiceExport with the given spec.
func export(ns, name, spec string) string {
	return fmt.Sprintf("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %s, name: %s}, spec: {%s}}", ns, name, spec)
}

// exported returns a Service and its ServiceExport.
func exported(ns, name, spec string) string {
	return service(ns, name, spec) + "\n---\n" + export(ns, name, "")
}

// slice returns an EndpointSlice of a Service, as if made by hand. Ports and endpoints are in YAML's flow style.
func slice(ns, service, suffix, family, ports string, endpoints ...string) string {
	return fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: %s, name: %s-%s, labels: {kubernetes.io/service-name: %s}}
addressType: %s
ports: [%s]
endpoints: [%s]
`, ns, service, suffix, service, family, ports, strings.Join(endpoints, ", "))
}

const port8080 = "{name: http, port: 8080}"

// endpoint returns an endpoint for slice, with an address and further fields.
func endpoint(address string, fields ...string) string {
	return fmt.Sprintf("{%s}", strings.Join(append([]string{fmt.Sprintf("addresses: [%q]", address)}, fields...), ", "))
}

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)
