package datapath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// TestUpgrade moves the hub process and the agents to the last release and back, one process at a time, while connections are made
// through ClusterSetIPs. None may fail, and they go where they should. After each step a cluster is drained and undrained, so that the
// running versions have work to do.
func TestUpgrade(t *testing.T) {
	if os.Getenv("CLUSTERSET_CHAOS") == "" {
		t.Skip("compiles another version: part of make chaos, which sets CLUSTERSET_CHAOS")
	}
	old, err := fleet.BuildPrevious(t.Context(), "../..", os.Getenv("CLUSTERSET_PREVIOUS"))
	if errors.Is(err, fleet.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := set(t)
	s := w.service(t, export{}, "chaoyang", "minhang")
	near, far := s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	s.answered("xicheng", near...)

	programs, present := []*fleet.Program{w.hub.Process}, w.hub.Process.Path
	for _, c := range w.clusters {
		programs = append(programs, c.Agent)
	}
	replace := func(p *fleet.Program, path string) {
		p.Stop()
		p.Path = path
		if err := p.Start(context.Background()); err != nil { // a cleanup uses it too
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, p := range programs {
			if p.Path != present {
				replace(p, present)
			}
		}
	})
	answered := s.only("xicheng", s.all...)
	for _, path := range []string{filepath.Join(old, "clusterset"), present} {
		for _, p := range programs {
			replace(p, path)
			kube.Eventually(t, w.ready)
			s.drain("chaoyang")
			s.answered("xicheng", far...)
			s.undrain("chaoyang")
			s.answered("xicheng", near...)
			t.Logf("%s is %s", p.Name, path)
		}
	}
	answered()
}
