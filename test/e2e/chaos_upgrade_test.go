package e2e

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/internal/join"
	testfleet "github.com/clusterset/clusterset/test/fleet"
)

const (
	// previousEnv is the commit of the previous version.
	previousEnv = "CLUSTERSET_PREVIOUS"
	previous    = "3562fc1"
)

// TestUpgrade runs the previous version and this one side by side (hub process, agents and DNS servers) while every exported
// name is asked in every cluster. It upgrades the hub first, with its CRDs, then the members. It then downgrades and
// upgrades again, members first both times. No answer may change, and what users change meanwhile must be right at every
// step.
func TestUpgrade(t *testing.T) {
	if os.Getenv(chaosTimeEnv) == "" {
		t.Skipf("compiles another version: part of make chaos, which sets %s", chaosTimeEnv)
	}
	old := buildPrevious(t, cmp.Or(os.Getenv(previousEnv), previous))
	seed, _ := randomSeeds(t)
	c := newChaos(t, seed, func(f *fleet) {
		for _, p := range f.programs() {
			p.Path = filepath.Join(old, filepath.Base(p.Path))
		}
		for _, m := range f.members {
			m.more, m.communities = rightOfPrevious, nil
		}
	})
	c.oldCRDs(&c.hub.cluster, old)
	if os.Getenv("UPDATE") != "" {
		c.store(previous)
	}
	hub := func(bin string, installCRDs bool) func() {
		return func() {
			if installCRDs {
				c.must(join.InstallHubCRDs(context.Background(), c.hub.Plane.Config()))
			}
			c.replace(c.hub.process, bin)
		}
	}
	member := func(m *member, bin string) func() {
		return func() {
			c.replace(m.agent, bin)
			i := slices.IndexFunc(c.servers, func(s randomServer) bool { return s.member.name == m.name })
			c.prober.excuse(i, true)
			c.replace(m.dns.Program, bin)
			c.prober.moved(i, m.dns.Addr())
		}
	}
	type step struct {
		what string
		do   func()
	}
	steps := []step{{"hub up", hub(workDir, true)}}
	for _, way := range []struct{ name, bin string }{{"up", workDir}, {"down", old}, {"up before the hub", workDir}} {
		for _, m := range c.members {
			steps = append(steps, step{m.name + " " + way.name, member(m, way.bin)})
		}
		if way.bin == old {
			steps = append(steps, step{"hub down", hub(old, false)})
		}
	}
	steps = append(steps, step{"hub up after the members", hub(workDir, false)})
	for _, s := range steps {
		s.do()
		c.victim = c.members[c.IntN(len(c.members))]
		c.churn(5)
		c.mend()
		c.watch(c.round())
		counts := c.prober.collect()
		t.Logf("%s: %d questions", s.what, counts.asked)
		if counts.bad() > 0 {
			t.Errorf("%s: %d wrong, %d missing, %d late:\n%s", s.what, counts.wrong, counts.missing, counts.late, strings.Join(counts.examples, "\n"))
		}
	}
}

// rightOfPrevious is the additional right of the previous version's agent where owner references are guarded.
const rightOfPrevious = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: previous-member}
rules: [{apiGroups: [""], resources: [services/finalizers], verbs: [update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: previous-member}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: previous-member}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: clusterset-member}]
`

// replace stops a program gracefully and starts another version of it.
func (c *chaos) replace(p *program, bin string) {
	c.Helper()
	p.Stop()
	p.Path = filepath.Join(bin, filepath.Base(p.Path))
	c.must(p.Start(context.Background()))
}

// programs are all of a fleet's programs of this project.
func (f *fleet) programs() []*program {
	all := []*program{f.hub.process}
	for _, m := range f.members {
		all = append(all, m.agent, m.dns.Program)
	}
	return all
}

// oldCRDs gives a hub the previous version's CRDs.
func (c *chaos) oldCRDs(of *cluster, old string) {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(old, "crds", "clusterset.dev_*.yaml"))
	c.must(err)
	if len(files) == 0 {
		c.Fatalf("no CRDs in %s", old)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		c.must(err)
		of.apply(string(content))
	}
}

// buildPrevious builds both programs of an earlier version, once for this machine, and returns their folder. They are
// compiled from the git history; without it the test is skipped. TestStoredObjects needs no history: it reads what earlier
// versions stored.
func buildPrevious(t *testing.T, commit string) string {
	t.Helper()
	dir, err := testfleet.BuildPrevious(t.Context(), root, commit)
	if errors.Is(err, testfleet.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
