package datapath

import (
	"context"
	"slices"
	"testing"
)

// With --data-path=clusterips a ClusterSetIP leads to the exporters' ClusterIPs, behind each of which its own kube-proxy chooses.
func TestClusterIPsFromABystander(t *testing.T) {
	s := set(t).service(t, everywhere, "xicheng", "minhang")
	xicheng, minhang := s.pods("xicheng", 2), s.pods("minhang", 2)
	s.publish()
	s.w.network.hidePods(t, s.w.cluster("chaoyang"))
	s.w.cluster("chaoyang").restartAgent(t, "--data-path", "clusterips")
	s.answered("chaoyang", slices.Concat(xicheng, minhang)...)
	// An exporter without a ready pod is left out, and one that has lost one of two isn't.
	xicheng.ready(false)
	minhang[0].notReady = true
	s.publish()
	s.answered("chaoyang", minhang[1])
}

// restartAgent restarts a cluster's agent with more flags, for the time of the test.
func (c *cluster) restartAgent(t *testing.T, flags ...string) {
	t.Helper()
	restart := func(flags ...string) {
		t.Helper()
		c.Agent.Stop()
		c.AgentFlags = flags
		if err := c.Agent.Start(context.Background()); err != nil { // t's has ended when this is the cleanup
			t.Fatal(err)
		}
	}
	restart(flags...)
	t.Cleanup(func() { restart() })
}
