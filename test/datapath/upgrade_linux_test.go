package datapath

import (
	"context"
	"errors"
	"fmt"
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
	dir, err := fleet.BuildPrevious(t.Context(), "../..", os.Getenv("CLUSTERSET_PREVIOUS"))
	if errors.Is(err, fleet.ErrNoHistory) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := set(t)
	w.upgrade(t, filepath.Join(dir, "clusterset"))
}

func (w *world) upgrade(t *testing.T, old string) {
	all := w.service(t, export{}, "xicheng", "chaoyang", "minhang")
	own := map[string]pods{}
	for _, c := range w.clusters {
		own[c.Name] = all.pods(c.Name, 2)
	}
	all.publish()
	remote := w.service(t, export{}, "chaoyang", "minhang")
	near, far := remote.pods("chaoyang", 2), remote.pods("minhang", 1)
	remote.publish()
	check := func(what string) {
		t.Helper()
		remote.drain("chaoyang")
		for _, c := range w.clusters {
			remote.answered(c.Name, far...)
		}
		remote.undrain("chaoyang")
		for _, c := range w.clusters {
			want := near
			if c.Name == "minhang" {
				want = far
			}
			all.answered(c.Name, own[c.Name]...)
			remote.answered(c.Name, want...)
		}
		t.Log(what)
	}
	check("all are of this version")
	present := w.hub.Process.Path
	replace := func(p *fleet.Program, path string) {
		t.Helper()
		p.Stop()
		p.Path = path
		if err := p.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	programs := []*fleet.Program{w.hub.Process}
	for _, c := range w.clusters {
		programs = append(programs, c.Agent)
	}
	t.Cleanup(func() {
		for _, p := range programs {
			if p.Path != present {
				replace(p, present)
			}
		}
	})
	var ends []func()
	for _, c := range w.clusters {
		ends = append(ends, all.only(c.Name, all.all...), remote.only(c.Name, remote.all...))
	}
	for _, path := range []string{old, present} {
		for _, p := range programs {
			replace(p, path)
			kube.Eventually(t, w.ready)
			check(fmt.Sprintf("%s is %s", p.Name, filepath.Base(filepath.Dir(path))))
		}
	}
	for _, end := range ends {
		end()
	}
}
