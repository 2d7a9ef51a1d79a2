package datapath

import (
	"slices"
	"testing"
)

// With --data-path=clusterips a ClusterSetIP leads to the exporters' ClusterIPs. Each exporter's own kube-proxy chooses the pod
// behind its ClusterIP.
func TestClusterIPsFromABystander(t *testing.T) {
	s := set(t).service(t, everywhere, "xicheng", "minhang")
	xicheng, minhang := s.pods("xicheng", 2), s.pods("minhang", 2)
	s.publish()
	s.w.routesServices(t, "chaoyang")
	s.answered("chaoyang", slices.Concat(xicheng, minhang)...)
	// An exporter without a ready pod is left out. An exporter that has lost one of two pods isn't.
	xicheng.ready(false)
	minhang[0].notReady = true
	s.publish()
	s.answered("chaoyang", minhang[1])
}

// The nearest exporter is used while it has at least min-ready endpoints.
func TestTiersOfClusterIPs(t *testing.T) {
	s := set(t).service(t, export{annotations: `clusterset.dev/min-ready: "2"`}, "xicheng", "minhang")
	xicheng, minhang := s.pods("xicheng", 2), s.pods("minhang", 2)
	s.publish()
	s.w.routesServices(t, "chaoyang")
	s.answered("chaoyang", xicheng...)
	xicheng[0].notReady = true
	s.publish()
	s.answered("chaoyang", slices.Concat(xicheng[1:], minhang)...)
	xicheng[0].notReady = false
	s.publish()
	s.answered("chaoyang", xicheng...)
	s.drain("xicheng")
	s.answered("chaoyang", minhang...)
}

// routesServices lets a cluster reach the other clusters' Services but not their pods, until the end of the test.
func (w *world) routesServices(t *testing.T, cluster string) {
	t.Helper()
	c := w.cluster(cluster)
	w.network.hidePods(t, c)
	c.restartAgent(t, "--data-path", "clusterips")
	t.Cleanup(func() { c.restartAgent(t) })
}
