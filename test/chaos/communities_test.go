package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/random"
)

// communityFaults are changes of communities. The hub enforces communities during all other faults, too.
var communityFaults = []fault{
	{group: "communities", name: "a member is taken out of those of the others, and put back", promise: "what it exports goes from the others, what they export goes from it, and both are back; no other answer changes", does: func(c *run) {
		apart := map[string][]string{c.victim.Spec.Name: {"apart"}}
		stage := c.staying(apart)
		c.prober.expect(stage)
		c.become(apart)
		kube.Eventually(c, random.Converge, c.Check)
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

// staying returns the current answers, with anyAnswer in place of those that would be different with the clusters in those communities.
func (c *run) staying(in map[string][]string) []answers {
	c.Helper()
	w := c.look()
	for _, cluster := range w.Clusters {
		if of, ok := in[cluster.Name]; ok {
			cluster.In = of
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

// beforeCommunities is a commit before communities were introduced. TestUpgrade builds the same one, so that it is compiled once.
const beforeCommunities = "133d18d"

// TestUpgradeIntoCommunities gives communities to a set in which one agent's version doesn't know them. Nothing is enforced, and nothing
// changes, until that agent is upgraded. Then the hub enforces the rights. When the clusters leave the community that they all share, no
// name disappears from a cluster that may still see it.
func TestUpgradeIntoCommunities(t *testing.T) {
	skipUnlessAsked(t)
	bin := buildPrevious(t, beforeCommunities)
	seed, _ := random.Seeds(t)
	to := map[string][]string{"xicheng": {"north"}, "shijiazhuang": {"north", "south"}, "minhang": {"south"}}
	late := int(seed % 3) //nolint:gosec // 0 to 2
	c := newRun(t, seed, func(f *fleettest.Fleet) {
		for _, m := range f.Members {
			m.Spec.Communities = nil
		}
		m := f.Members[late]
		m.Agent.Path, m.Spec.More = filepath.Join(bin, "clusterset"), rightOfPrevious
	})
	old := c.Members[late]
	t.Logf("the agent of %s is of an older version", old.Spec.Name)

	all := map[string][]string{}
	for name, in := range to {
		all[name] = append([]string{"default"}, in...)
	}
	c.become(all)
	c.TooOld = old.Spec.Name
	c.unchanged("communities, and an agent that knows none")
	if said := c.status(); !strings.Contains(said, "communities not enforced: the agents of these clusters are too old for them: "+old.Spec.Name+"\n") {
		t.Errorf("clusterset status:\n%s", said)
	}

	c.replace(old.Agent, filepath.Dir(fleettest.Binaries().Clusterset))
	c.TooOld = ""
	c.unchanged("the agent was upgraded")
	if said := c.status(); strings.Contains(said, "not enforced") {
		t.Errorf("clusterset status:\n%s", said)
	}

	c.foresee()
	c.prober.expect(c.staying(to))
	c.become(to)
	c.unchanged("nobody is in the common community any more")
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

// status returns the output of clusterset status on the hub.
func (c *run) status() string {
	c.Helper()
	out, err := fleettest.Binaries().Command(context.Background(), c.Dir, "status", "--kubeconfig", c.Hub.Plane.Kubeconfig()).CombinedOutput()
	var exit *exec.ExitError // its exit code means that something needs attention
	if err != nil && !errors.As(err, &exit) {
		c.Fatal(fmt.Errorf("clusterset status: %w", err))
	}
	return string(out)
}
