package datapath

import (
	"net/netip"
	"slices"
	"testing"
)

// A client uses its own zone while it has an endpoint, then the region, then all, as with the names of a service.
func TestTiers(t *testing.T) {
	s := set(t).service(t, export{}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", xicheng...)
	s.answered("chaoyang", chaoyang...)
	s.answered("minhang", minhang...)
	s.answeredBy(way{from: s.w.cluster("xicheng").nodes, network: "udp", port: 80}, xicheng...)

	xicheng.ready(false)
	minhang.ready(false)
	s.publish()
	s.answered("xicheng", chaoyang...)
	s.answered("chaoyang", chaoyang...)
	s.answered("minhang", chaoyang...)

	minhang.ready(true)
	chaoyang.ready(false)
	s.publish()
	for _, c := range s.w.clusters {
		s.answered(c.Name, minhang...)
	}

	xicheng.ready(true)
	minhang.ready(false)
	s.publish()
	for _, c := range s.w.clusters {
		s.answered(c.Name, xicheng...)
	}
}

// Endpoints beyond the boundary are not used, even if no other is left.
func TestBoundary(t *testing.T) {
	s := set(t).service(t, export{annotations: "clusterset.dev/boundary: region"}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", xicheng...)
	s.answered("minhang", minhang...)
	xicheng.ready(false)
	s.publish()
	s.answered("xicheng", chaoyang...)
	chaoyang.ready(false)
	s.publish()
	s.answered("xicheng")
	s.answered("chaoyang")
	s.answered("minhang", minhang...)
	xicheng.ready(true)
	minhang.ready(false)
	s.publish()
	s.answered("chaoyang", xicheng...)
	s.answered("minhang")
}

// Each port and each family is ranked among the endpoints that have it.
func TestTiersOfPortsAndFamilies(t *testing.T) {
	s := set(t).service(t, export{}, "xicheng", "minhang")
	s.export(export{ports: []servicePort{httpPort, adminPort}}, "chaoyang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 1), s.pods("chaoyang", 1), s.pods("minhang", 1)
	xicheng[0].v6 = netip.Addr{}
	s.publish()
	nodes := s.w.cluster("xicheng").nodes
	s.answeredBy(way{from: nodes, network: "tcp4", port: 80}, xicheng...)
	s.answeredBy(way{from: nodes, network: "tcp6", port: 80}, chaoyang...)
	s.answeredBy(way{from: nodes, network: "tcp", port: 9000}, chaoyang...)
	s.answeredBy(way{from: nodes, network: "udp4", port: 80}, xicheng...)
	s.answeredBy(way{from: nodes, network: "udp6", port: 80}, minhang...)
}

// If the nodes of a cluster are in several zones, each node prefers its own.
func TestNodeInANewZone(t *testing.T) {
	s := set(t).service(t, export{}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang := s.pods("xicheng", 2), s.pods("chaoyang", 2)
	s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", xicheng...)
	old := slices.Clone(s.w.cluster("xicheng").nodes)
	joined := s.w.cluster("xicheng").node(t, nodeSpec{"hebei", nftables})
	s.answeredBy(way{from: []*node{joined}, network: "tcp", port: 80}, chaoyang...)
	s.answeredBy(way{from: old, network: "tcp", port: 80}, xicheng...)
	// The cluster's own pods in the new zone are used there, too.
	there := s.podOn(joined)
	s.publish()
	s.answeredBy(way{from: []*node{joined}, network: "tcp", port: 80}, append(chaoyang, there)...)
	s.answeredBy(way{from: old, network: "tcp", port: 80}, xicheng...)
	chaoyang.ready(false)
	there.notReady = true
	s.publish()
	s.answered("xicheng", xicheng...)
}

// A node without a zone label ignores all hints, so a cluster with such a node is ranked from its MemberCluster's location.
func TestNodeWithoutAZone(t *testing.T) {
	w := set(t)
	unlabelled := w.cluster("xicheng").nodes[1]
	zone := unlabelled.zone
	t.Cleanup(func() { unlabelled.relabel(t, zone) })
	unlabelled.relabel(t, "")
	s := w.service(t, export{}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", xicheng...)
	xicheng.ready(false)
	s.publish()
	s.answered("xicheng", chaoyang...)
	chaoyang.ready(false)
	s.publish()
	s.answered("xicheng", minhang...)
	xicheng.ready(true)
	s.publish()
	s.answered("xicheng", xicheng...)
	unlabelled.relabel(t, zone)
	s.answered("xicheng", xicheng...)
}

// A pod behind a Service with internalTrafficPolicy Local serves its own node only.
func TestInternalTrafficPolicyLocal(t *testing.T) {
	s := set(t).service(t, export{spec: "internalTrafficPolicy: Local"}, "xicheng", "minhang")
	nodes := s.w.cluster("xicheng").nodes
	one, other := s.podOn(nodes[0]), s.podOn(nodes[1])
	s.pods("minhang", 1)
	s.publish()
	s.answeredBy(way{from: nodes[:1], network: "tcp", port: 80}, one)
	s.answeredBy(way{from: nodes[1:], network: "tcp", port: 80}, other)
}
