package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/clusterset/clusterset/cli/join"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/random"
)

// previousEnv names the commit of the previous version, if it isn't the last release.
const previousEnv = "CLUSTERSET_PREVIOUS"

// TestUpgrade runs the previous version and this one side by side (hub process, agents and DNS servers) while every exported
// name is asked in every cluster. It upgrades the hub first, with its CRDs, then the members. It then downgrades and
// upgrades again, members first both times. No answer may change, and what users change meanwhile must be right after every
// step.
func TestUpgrade(t *testing.T) {
	skipUnlessAsked(t)
	present := filepath.Dir(fleettest.Binaries().Clusterset)
	old, err := fleet.BuildPrevious(t.Context(), "../..", os.Getenv(previousEnv)) // from the git history
	if errors.Is(err, fleet.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := random.Seeds(t)
	c := newRun(t, threeClusters, newTable(t, seed), seed, func(f *fleettest.Fleet) {
		programs := []*fleet.Program{f.Hub.Process}
		for _, m := range f.Members {
			programs = append(programs, m.Agent, m.DNS.Program)
		}
		for _, p := range programs {
			p.Path = filepath.Join(old, filepath.Base(p.Path))
		}
	})
	files, err := filepath.Glob(filepath.Join(old, "crds", "clusterset.dev_*.yaml"))
	c.must(err)
	if len(files) == 0 {
		t.Fatalf("no CRDs in %s", old)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		c.must(err)
		c.Hub.Apply(string(content))
	}
	hub := func(bin string, installCRDs bool) func() {
		return func() {
			if installCRDs {
				c.must(join.InstallHubCRDs(context.Background(), join.At(c.Hub.Plane.Config())))
			}
			c.replace(c.Hub.Process, bin)
		}
	}
	member := func(m *fleettest.Member, bin string) func() {
		return func() {
			c.replace(m.Agent, bin)
			i := slices.IndexFunc(c.Servers, func(s random.Server) bool { return s.Member.Spec.Name == m.Spec.Name })
			c.prober.excuse(i, true)
			c.replace(m.DNS.Program, bin)
			c.prober.moved(i, m.DNS.Addr())
		}
	}
	type step struct {
		what string
		do   func()
	}
	steps := []step{{"hub up", hub(present, true)}}
	for _, way := range []struct{ name, bin string }{{"up", present}, {"down", old}, {"up before the hub", present}} {
		for _, m := range c.Members {
			steps = append(steps, step{m.Spec.Name + " " + way.name, member(m, way.bin)})
		}
		if way.bin == old {
			steps = append(steps, step{"hub down", hub(old, false)})
		}
	}
	steps = append(steps, step{"hub up after the members", hub(present, false)})
	for _, s := range steps {
		s.do()
		c.unchanged(s.what)
	}
}

// replace stops a program gracefully and starts another version of it.
func (c *run) replace(p *fleet.Program, bin string) {
	c.Helper()
	p.Stop()
	p.Path = filepath.Join(bin, filepath.Base(p.Path))
	c.must(p.Start(context.Background()))
}
