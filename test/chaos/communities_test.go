package chaos

import (
	"maps"
	"strings"

	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

// communityFaults are changes of communities. The hub enforces communities during all other faults, too.
var communityFaults = []fault{
	{group: "communities", name: "a member is taken out of those of the others, and put back", promise: "what it exports goes from the others, what they export goes from it, and both are back; no other answer changes", does: func(c *run) {
		apart := map[string][]string{c.victim.Spec.Name: {"apart"}}
		stage := c.staying(func(of *random.View) { of.In = apart[of.Name] })
		c.prober.expect(stage)
		c.become(apart)
		kube.EventuallyWithin(c, random.Converge, c.Check)
		for i, s := range c.Servers {
			if n := len(differing(c.phases[ready][i], stage[i])); n > 0 {
				c.touched("%d answers changed at %s", n, s.Member.Spec.Name)
			}
		}
		c.churn(5)
		c.become(map[string][]string{c.victim.Spec.Name: c.victim.Spec.Communities})
	}},
}

// become puts clusters into communities.
func (c *run) become(in map[string][]string) {
	c.Helper()
	for i, m := range c.Members {
		if of, ok := in[m.Spec.Name]; ok {
			c.must(c.Put(i, of))
		}
	}
}

// anyAnswer is a stage's answer to a question whose answer is changing part by part. It allows any answer.
const anyAnswer = "*"

// staying returns the current answers, with anyAnswer in place of those that would be different if the victim were changed like that.
func (c *run) staying(change func(victim *random.View)) []answers {
	c.Helper()
	w := c.look()
	for _, cluster := range w.Clusters {
		if cluster.Name == c.victim.Spec.Name {
			change(cluster)
		}
	}
	var stage []answers
	for i, then := range c.answersIn(w, c.phases[ready][0]) {
		now := maps.Clone(c.phases[ready][i])
		for q := range now {
			if now[q] != then[q] {
				now[q] = anyAnswer
			}
		}
		stage = append(stage, now)
	}
	return stage
}

// unchanged lets users do a few things, waits until all is right, and fails the test if an answer changed meanwhile.
func (c *run) unchanged(what string) {
	c.Helper()
	c.victim = c.Members[c.IntN(len(c.Members))]
	c.churn(5)
	c.mend()
	c.watch(c.round())
	counts := c.prober.collect()
	c.Logf("%s: %d questions", what, counts.asked)
	if counts.bad() > 0 {
		c.Errorf("%s: %d wrong, %d missing, %d late:\n%s", what, counts.wrong, counts.missing, counts.late, strings.Join(counts.examples, "\n"))
	}
}
