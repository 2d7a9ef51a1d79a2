package datapath

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// export describes how a cluster exports the service.
type export struct {
	annotations string        // annotations of the ServiceExport, as YAML in flow style, without braces
	spec        string        // further fields of the Service's spec, likewise
	ports       []servicePort // default: http and udp
}

type servicePort struct {
	name, protocol string
	number, target int
}

var (
	httpPort  = servicePort{"http", "TCP", 80, targetPort}
	udpPort   = servicePort{"udp", "UDP", 80, targetPort}
	adminPort = servicePort{"admin", "TCP", 9000, targetPort}
)

// service is a Service called web that some clusters export, in a namespace of the test's own.
type service struct {
	*testing.T
	w         *world
	namespace string
	exporters map[*cluster][]servicePort
	all       []*pod
}

// service creates a service that the clusters export until the end of the test. It has no endpoints yet.
func (w *world) service(t *testing.T, e export, clusters ...string) *service {
	t.Helper()
	w.services++
	s := &service{T: t, w: w, namespace: fmt.Sprintf("web-%d", w.services), exporters: map[*cluster][]servicePort{}}
	for _, c := range w.clusters {
		s.apply(c, "{apiVersion: v1, kind: Namespace, metadata: {name: "+s.namespace+"}}")
	}
	for _, c := range clusters {
		s.export(e, c)
	}
	return s
}

// export makes another cluster export the service.
func (s *service) export(e export, cluster string) {
	s.Helper()
	c := s.w.cluster(cluster)
	if e.ports == nil {
		e.ports = []servicePort{httpPort, udpPort}
	}
	s.exporters[c] = e.ports
	var ports []string
	for _, p := range e.ports {
		ports = append(ports, fmt.Sprintf("{name: %s, protocol: %s, port: %d, targetPort: %d}", p.name, p.protocol, p.number, p.target))
	}
	manifests := fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {namespace: %[1]s, name: web}, spec: {ports: [%[2]s], ipFamilyPolicy: PreferDualStack, %[3]s}}
---
{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {namespace: %[1]s, name: web, annotations: {%[4]s}}}
`, s.namespace, strings.Join(ports, ", "), e.spec, e.annotations)
	s.apply(c, manifests)
	s.Cleanup(func() {
		if err := c.Plane.DeleteContext(context.Background(), []byte(manifests)); err != nil {
			s.Errorf("clean up: %v", err)
		}
	})
}

func (s *service) apply(c *cluster, manifest string) {
	s.Helper()
	c.Plane.Apply(s, []byte(manifest))
}

// pods starts pods of a cluster, on its nodes in turn. Their addresses become known with publish.
func (s *service) pods(cluster string, count int) pods {
	s.Helper()
	c := s.w.cluster(cluster)
	var all pods
	for i := range count {
		all = append(all, s.podOn(c.nodes[i%len(c.nodes)]))
	}
	return all
}

func (s *service) podOn(n *node) *pod {
	s.Helper()
	p := n.newPod(s)
	s.all = append(s.all, p)
	return p
}

// remove takes pods out of the service.
func (s *service) remove(gone ...*pod) {
	s.all = slices.DeleteFunc(s.all, func(p *pod) bool { return slices.Contains(gone, p) })
}

// publish writes the exporters' EndpointSlices, as the endpointslice controller would.
func (s *service) publish() {
	s.Helper()
	for c := range s.exporters {
		s.publishOf(c)
	}
}

// publishOf writes those of one cluster.
func (s *service) publishOf(c *cluster) {
	s.Helper()
	var ports []string
	for _, p := range s.exporters[c] {
		ports = append(ports, fmt.Sprintf("{name: %s, protocol: %s, port: %d}", p.name, p.protocol, p.target))
	}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		var endpoints []string
		for _, p := range s.all {
			if addr := p.address(family == corev1.IPv6Protocol); p.node.cluster == c && addr.IsValid() {
				endpoints = append(endpoints, p.endpoint(addr))
			}
		}
		s.apply(c, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: %s, name: web-%s, labels: {kubernetes.io/service-name: web}}
addressType: %s
ports: [%s]
endpoints: [%s]
`, s.namespace, strings.ToLower(string(family)), family, strings.Join(ports, ", "), strings.Join(endpoints, ", ")))
	}
}
