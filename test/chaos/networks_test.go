package chaos

import (
	"slices"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

// networkFaults are those of two networks of two clusters each. While one cluster of each is out of use, each network is left with one.
var networkFaults = []fault{
	{group: "networks", apart: true, name: "a member is put into a network of its own, and taken back, while hub process and an agent are killed", promise: "it and the others use each other's external addresses, or nothing, and are back; no other answer changes", does: func(c *run) {
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
		c.must(c.PutBack(victim, c.in.networks[victim]))
	}},
	{group: "networks", apart: true, name: "of each of two networks, one cluster is drained while one of the other dies (SIGKILL of its agent, for long)", promise: "the clusters' endpoints rank last (drained, Suspect), go (Expired) and are back, in both networks; no name leads to a pod of the other network, and each leads somewhere while anything is ready; no other answer changes", silent: true, does: func(c *run) {
		pair := c.oneOfEach()
		for i, victim := range pair {
			c.victim = pair[1-i]
			c.foresee()
			c.drain(true)

			c.victim = victim
			c.foresee()
			if c.shows(ready, suspected) == 0 || c.shows(suspected, expired) == 0 {
				c.Fatalf("no answer changes elsewhere when %s is silent", victim.Spec.Name)
			}
			c.isDrained()
			c.victim.KillAgent()
			c.fallsSilent()
			c.must(c.Strays(c.look()))
			c.victim.StartAgent()
			c.mend()

			c.victim = pair[1-i]
			c.foresee()
			c.drain(false)
		}
	}},
}

// oneOfEach returns a random cluster of each network.
func (c *run) oneOfEach() (all []*fleettest.Member) {
	for _, network := range slices.Compact(slices.Clone(c.in.networks)) {
		of := slices.DeleteFunc(slices.Clone(c.Members), func(m *fleettest.Member) bool { return c.in.networks[slices.Index(c.Members, m)] != network })
		all = append(all, of[c.IntN(len(of))])
	}
	return all
}
