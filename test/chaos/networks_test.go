package chaos

import (
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

// networkFaults are changes of networks.
var networkFaults = []fault{
	{group: "networks", name: "a member is put into a network of its own, and taken back, while hub process and an agent are killed", promise: "it and the others use each other's external addresses, or nothing, and are back; no other answer changes", does: func(c *run) {
		victim := c.victimServer()
		stage := c.staying(func(of *random.View) { of.PutApart(victim) })
		c.prober.expect(stage)
		c.must(c.PutApart(victim))
		c.Hub.Process.Kill()
		c.victim.Agent.Kill()
		c.must(c.Hub.Process.Start(c.Context()))
		c.must(c.victim.Agent.Start(c.Context()))
		kube.EventuallyWithin(c, random.Converge, c.Check)
		for i, s := range c.Servers {
			if n := len(differing(c.phases[ready][i], stage[i])); n > 0 {
				c.touched("%d answers changed at %s", n, s.Member.Spec.Name)
			}
		}
		c.churn(5)
		c.must(c.PutBack(victim))
	}},
}
