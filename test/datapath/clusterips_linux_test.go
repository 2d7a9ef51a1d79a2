package datapath

import (
	"slices"
	"testing"

	"github.com/clusterset/clusterset/api"
)

// With --data-path=clusterips a ClusterSetIP leads to the exporters' ClusterIPs, and in an exporting cluster to its own pods and not to
// its own ClusterIP: no packet filter translates an address twice. Each exporter's own kube-proxy chooses the pod behind its ClusterIP.
// The agent's flags say what no service does.
func TestClusterIPs(t *testing.T) {
	w := set(t)
	for _, name := range []string{"xicheng", "chaoyang"} { // an exporter, and a cluster that exports nothing
		t.Run(name, func(t *testing.T) {
			c := w.cluster(name)
			w.network.hidePods(t, c)
			c.restartAgent(t, "--data-path", "clusterips", "--prefer", "none")
			t.Cleanup(func() { c.restartAgent(t) })
			s := w.service(t, export{}, "xicheng", "minhang")
			xicheng, minhang := s.pods("xicheng", 2), s.pods("minhang", 2)
			s.publish()
			s.answered(name, slices.Concat(xicheng, minhang)...)
			// An exporter without a ready pod is left out. An exporter that has lost one of two pods isn't.
			xicheng.ready(false)
			minhang[0].notReady = true
			s.publish()
			s.answered(name, minhang[1])
			xicheng.ready(true)
			minhang.ready(false)
			s.publish()
			s.answered(name, xicheng...)
			// A ClusterIP stands for all pods behind it, so only the share 0 counts. Rule A80 of docs/spec/answers.md.
			minhang.ready(true)
			s.publish()
			s.state("minhang", api.AnnotationShare, "50")
			s.answered(name, slices.Concat(xicheng, minhang)...)
			s.state("minhang", api.AnnotationShare, "0")
			s.answered(name, xicheng...)
		})
	}
}
