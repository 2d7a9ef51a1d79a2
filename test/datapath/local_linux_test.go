package datapath

import (
	"slices"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// A rollout while the hub is down takes effect in its own cluster. The hub's return disturbs no connection.
func TestRolloutWithoutTheHub(t *testing.T) {
	w := set(t)
	s := w.service(t, export{}, "xicheng", "minhang")
	before, far := s.pods("xicheng", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", before...)
	s.answered("minhang", far...)

	w.hub.Plane.KillAPIServer()
	t.Cleanup(func() { w.startHub(t) })
	after := s.pods("xicheng", 2)
	s.remove(before...)
	s.publish()
	s.answered("xicheng", after...)
	for _, p := range before {
		p.fail()
	}
	undisturbed := s.only("xicheng", after...)
	w.startHub(t)
	far.ready(false)
	s.publish()
	s.answered("minhang", after...)
	kube.Eventually(t, w.ready)
	undisturbed()
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

// In an exporting cluster, the ClusterSetIP leads to the cluster's own pods and not to its own ClusterIP: no packet filter
// translates an address twice.
func TestClusterIPsFromAnExporter(t *testing.T) {
	w := set(t)
	w.routesServices(t, "xicheng")
	for _, tt := range []struct {
		name string
		export
		others bool
	}{{"own first", export{}, false}, {"everywhere", everywhere, true}} {
		t.Run(tt.name, func(t *testing.T) {
			s := w.service(t, tt.export, "xicheng", "minhang")
			xicheng, minhang := s.pods("xicheng", 2), s.pods("minhang", 2)
			s.publish()
			if tt.others {
				s.answered("xicheng", slices.Concat(xicheng, minhang)...)
			} else {
				s.answered("xicheng", xicheng...)
			}
			xicheng.ready(false)
			s.publish()
			s.answered("xicheng", minhang...)
			xicheng.ready(true)
			minhang.ready(false)
			s.publish()
			s.answered("xicheng", xicheng...)
		})
	}
}
