package datapath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// TestUpgrade moves the hub process and the agents to earlier versions and back, one process at a time, while connections are made
// through ClusterSetIPs. None may fail, and in each cluster they go where the version of its agent directs them. After each step a
// cluster is drained and undrained, so that the running versions have work to do.
func TestUpgrade(t *testing.T) {
	if os.Getenv("CLUSTERSET_CHAOS") == "" {
		t.Skip("compiles other versions: part of make chaos, which sets CLUSTERSET_CHAOS")
	}
	for _, from := range []struct {
		commit string
		ranks  bool // whether its agent ranks the endpoints behind ClusterSetIPs
	}{{"3562fc1", true}, {"b18c420", false}} {
		t.Run(from.commit, func(t *testing.T) {
			w := set(t)
			dir, err := fleet.BuildPrevious(t.Context(), "../..", from.commit)
			if errors.Is(err, fleet.ErrNoHistory) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			w.upgrade(t, filepath.Join(dir, "clusterset"), from.ranks)
		})
	}
}

func (w *world) upgrade(t *testing.T, old string, oldRanks bool) {
	all := w.service(t, export{}, "xicheng", "chaoyang", "minhang")
	own := map[string]pods{}
	for _, c := range w.clusters {
		own[c.Name] = all.pods(c.Name, 2)
	}
	all.publish()
	remote := w.service(t, export{}, "chaoyang", "minhang")
	near, far := remote.pods("chaoyang", 2), remote.pods("minhang", 1)
	remote.publish()
	ranks := func(c *cluster) bool { return c.Agent.Path != old || oldRanks }
	check := func(what string) {
		t.Helper()
		remote.drain("chaoyang")
		for _, c := range w.clusters {
			want := slices.Concat(near, far)
			if ranks(c) {
				want = far
			}
			remote.answered(c.Name, want...)
		}
		remote.undrain("chaoyang")
		for _, c := range w.clusters {
			want, wantRemote := all.all, slices.Concat(near, far)
			if ranks(c) {
				want, wantRemote = own[c.Name], near
				if c.Name == "minhang" {
					wantRemote = far
				}
			}
			all.answered(c.Name, want...)
			remote.answered(c.Name, wantRemote...)
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
			kube.Eventually(t, soon, w.ready)
			check(fmt.Sprintf("%s is %s", p.Name, filepath.Base(filepath.Dir(path))))
		}
	}
	for _, end := range ends {
		end()
	}
}
