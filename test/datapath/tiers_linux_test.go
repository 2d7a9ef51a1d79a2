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

func TestPrefer(t *testing.T) {
	for _, tt := range []struct {
		prefer                     string
		xicheng, chaoyang, minhang string // the pods that answer each cluster's clients, by the first letters of the clusters
	}{
		{"none", "xcm", "xcm", "xcm"},
		{"region", "xc", "xc", "m"},
		{"cluster", "x", "c", "m"},
		{"cluster zone region", "x", "c", "m"},
	} {
		t.Run(tt.prefer, func(t *testing.T) {
			s := set(t).service(t, export{annotations: "clusterset.dev/prefer: " + tt.prefer}, "xicheng", "chaoyang", "minhang")
			of := map[rune]pods{'x': s.pods("xicheng", 2), 'c': s.pods("chaoyang", 1), 'm': s.pods("minhang", 1)}
			s.publish()
			for cluster, want := range map[string]string{"xicheng": tt.xicheng, "chaoyang": tt.chaoyang, "minhang": tt.minhang} {
				var all pods
				for _, c := range want {
					all = append(all, of[c]...)
				}
				s.answered(cluster, all...)
			}
		})
	}
}

// The agent's flags apply where a service states no preference. A trafficDistribution is a stated preference.
func TestDefaultsOfTheAgent(t *testing.T) {
	w := set(t)
	t.Cleanup(func() { w.cluster("xicheng").restartAgent(t) })
	w.cluster("xicheng").restartAgent(t, "--prefer", "none", "--boundary", "region")
	s := w.service(t, export{}, "xicheng", "chaoyang", "minhang")
	near := w.service(t, export{spec: "trafficDistribution: PreferClose"}, "xicheng", "chaoyang", "minhang")
	for _, svc := range []*service{s, near} {
		svc.pods("xicheng", 2)
		svc.pods("chaoyang", 1)
		svc.pods("minhang", 1)
		svc.publish()
	}
	s.answered("xicheng", s.all[:3]...)
	near.answered("xicheng", near.all[:2]...)
}

// A tier with fewer endpoints than min-ready is used together with the next.
func TestMinReady(t *testing.T) {
	s := set(t).service(t, export{annotations: `clusterset.dev/min-ready: "2"`}, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", xicheng...)
	s.answered("minhang", slices.Concat(xicheng, chaoyang, minhang)...)
	xicheng[0].notReady = true
	s.publish()
	s.answered("xicheng", slices.Concat(xicheng[1:], chaoyang)...)
	xicheng[0].notReady = false
	s.publish()
	s.answered("xicheng", xicheng...)
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
