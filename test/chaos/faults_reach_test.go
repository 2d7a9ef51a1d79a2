package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

const (
	// ranksLastThere and ranksLastInBoth are the promises for paths between two clusters that break while both reach the hub.
	ranksLastThere  = "where it can't be reached, the cluster's endpoints rank last until it can be again; no answer changes elsewhere"
	ranksLastInBoth = "in each of the two, the other's endpoints rank last until it can be reached again; no answer changes elsewhere"
)

var partings = []string{ranksLastThere, ranksLastInBoth}

// reachFaults happen on the way from an agent to the beacons of another cluster. The hub hears all clusters.
var reachFaults = []fault{
	{group: "reach", name: "connections to a cluster are refused in another", promise: ranksLastThere, does: parting(faultproxy.Condition{Refused: true})},
	{group: "reach", name: "packets to and from a cluster are dropped in another", promise: ranksLastThere, does: parting(faultproxy.Condition{ToServer: true, ToClient: true})},
	{group: "reach", name: "one way: packets to a cluster are dropped in another", promise: ranksLastThere, does: parting(faultproxy.Condition{ToServer: true})},
	{group: "reach", name: "one way: replies of a cluster are dropped in another", promise: ranksLastThere, does: parting(faultproxy.Condition{ToClient: true})},
	{group: "reach", name: "large packets from a cluster are lost in another", promise: ranksLastThere, does: parting(faultproxy.Condition{Largest: 1200})},
	{group: "reach", name: "slow: 4 s from a cluster to another", promise: ranksLastThere, does: parting(faultproxy.Condition{Delay: 4 * time.Second})},
	{group: "reach", name: "two clusters can't reach each other: packets dropped", promise: ranksLastInBoth, does: parting(faultproxy.Condition{ToServer: true, ToClient: true})},

	{group: "reach", name: "slow: 0.1 to 1 s from a cluster to all others", promise: noChange, does: func(c *run) {
		c.strain(faultproxy.Condition{Delay: c.between(100*time.Millisecond, time.Second)})
	}},
	{group: "reach", name: "a cluster reaches no other: packets dropped", promise: noChange, does: func(c *run) {
		c.strain(faultproxy.Condition{ToServer: true, ToClient: true})
	}},
	{group: "reach", name: "flapping: a cluster is out of another's reach for a second, again and again", promise: noChange, does: func(c *run) {
		other := c.others()[c.IntN(len(c.Members)-1)].Spec.Name
		for range 3 + c.IntN(4) {
			before := c.Paths.Disturbed(c.victim.Spec.Name, other)
			c.Paths.Disturb(c.victim.Spec.Name, other, faultproxy.Condition{Refused: true})
			c.dialled(c.victim.Spec.Name, other, before)
			c.Paths.Mend(c.victim.Spec.Name, other)
			c.churn(1)
			c.watch(c.between(2*time.Second, 4*time.Second))
		}
	}},
}

// way is the path from one member to another.
type way struct{ from, to string }

// ways returns the paths that the fault breaks.
func (c *run) ways() []way {
	there := way{c.far.Spec.Name, c.victim.Spec.Name}
	if c.fault.promise == ranksLastInBoth {
		return []way{there, {there.to, there.from}}
	}
	return []way{there}
}

// chooseTwo picks the victim and the cluster that is not to reach it: two whose parting shows in each of them that is to notice, and that
// were parted least often so far.
func (c *run) chooseTwo(candidates []*fleettest.Member) {
	c.Helper()
	var found []*fleettest.Member // the two
	for _, c.victim = range candidates {
		for _, c.far = range candidates {
			if c.far == c.victim || !c.partingShows() {
				continue
			}
			if len(found) < 2 || c.parted[way{c.far.Spec.Name, c.victim.Spec.Name}] < c.parted[way{found[1].Spec.Name, found[0].Spec.Name}] {
				found = []*fleettest.Member{c.victim, c.far}
			}
		}
	}
	if len(found) < 2 {
		c.Fatal("whichever clusters can't reach each other, no answer changes there")
	}
	c.victim, c.far = found[0], found[1]
	c.foresee()
}

// partingShows reports whether an answer changes in each cluster that can't reach the other any more.
func (c *run) partingShows() bool {
	c.Helper()
	c.foresee()
	apart := c.apart(c.ways())
	for i, s := range c.Servers {
		loses := slices.ContainsFunc(c.ways(), func(w way) bool { return w.from == s.Member.Spec.Name })
		if loses && len(differing(c.phases[ready][i], apart[i])) == 0 {
			return false
		}
	}
	return true
}

// apart returns the expected answers while these paths are broken.
func (c *run) apart(ways []way) []answers {
	c.Helper()
	w := c.look()
	for _, cluster := range w.Clusters {
		for _, broken := range ways {
			if broken.from == cluster.Name {
				cluster.Unreachable[broken.to] = true
			}
		}
	}
	return c.answersIn(w, c.phases[ready][0])
}

// parting returns a fault that breaks paths until all answers have changed that must, and stay so, and mends them until all are back.
func parting(condition faultproxy.Condition) func(*run) {
	return func(c *run) {
		c.Helper()
		ways := c.ways()
		apart := c.apart(ways)
		c.prober.expect(c.phases[ready], apart)
		for _, w := range ways {
			c.Paths.Cut(w.from, w.to, condition)
			c.parted[w]++
		}
		c.prober.look(1)
		c.until(func() error { return c.prober.unseen(1, -1) })
		n := 0
		for i := range c.Servers {
			n += len(differing(c.phases[ready][i], apart[i]))
		}
		c.touched("%d answers changed where it was out of reach", n)
		c.churn(3)
		c.watch(c.between(2*time.Second, 8*time.Second))

		c.prober.expect(apart, c.phases[ready])
		for _, w := range ways {
			c.Paths.Mend(w.from, w.to)
		}
		c.prober.look(1)
		const longest = 6 * time.Minute // the longest delay of D50, and a bit
		kube.EventuallyWithin(c, longest, func() error { return c.prober.unseen(1, -1) })
		c.prober.look(0)
	}
}

// strain puts all paths from the victim into a condition for some seconds, and longer if no dial has felt it yet.
func (c *run) strain(condition faultproxy.Condition) {
	c.Helper()
	before := map[string]int{}
	for _, m := range c.others() {
		before[m.Spec.Name] = c.Paths.Disturbed(c.victim.Spec.Name, m.Spec.Name)
		c.Paths.Disturb(c.victim.Spec.Name, m.Spec.Name, condition)
	}
	c.churn(5)
	c.watch(c.between(8*time.Second, 15*time.Second))
	for _, m := range c.others() {
		c.dialled(c.victim.Spec.Name, m.Spec.Name, before[m.Spec.Name])
	}
}

// dialled waits until a dial has felt the condition of a path.
func (c *run) dialled(from, to string, before int) {
	c.Helper()
	c.until(func() error {
		if n := c.Paths.Disturbed(from, to); n > before {
			c.touched("%d dials of %s to %s were disturbed", n-before, from, to)
			return nil
		}
		return fmt.Errorf("%w: no dial of %s to %s felt the path's condition", errNotYet, from, to)
	})
}

// others returns the members besides the victim.
func (c *run) others() []*fleettest.Member {
	return slices.DeleteFunc(slices.Clone(c.Members), func(m *fleettest.Member) bool { return m.Spec.Name == c.victim.Spec.Name })
}
