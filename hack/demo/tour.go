package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// folder is the directory for all files of the demo, below the directory where its commands run.
const folder = ".demo"

// soon bounds each wait. It is far longer than any step takes, because the machine may be compiling at the same time.
const soon = 2 * time.Minute

// tour is one run of the demo. Its methods do nothing once one of them has failed: err is the broken promise, and the rest of the story
// would make no sense.
type tour struct {
	*page
	ctx  context.Context
	err  error
	root string // the root of the repository
	base string // where the commands run
	bin  fleet.Binaries
	hub  *fleet.Hub

	xicheng, shijiazhuang, minhang *fleet.Member
}

// newTour describes the fleet.
func newTour(ctx context.Context, p *page, root, base string, bin fleet.Binaries) *tour {
	dir := filepath.Join(base, folder)
	t := &tour{page: p, ctx: ctx, root: root, base: base, bin: bin, hub: fleet.NewHub(dir, bin)}
	t.xicheng = fleet.NewMember(dir, bin, fleet.Location{Cluster: "xicheng", Zone: "beijing", Region: "north"})
	t.shijiazhuang = fleet.NewMember(dir, bin, fleet.Location{Cluster: "shijiazhuang", Zone: "hebei", Region: "north"})
	t.minhang = fleet.NewMember(dir, bin, fleet.Location{Cluster: "minhang", Zone: "shanghai", Region: "south"})
	for i, m := range t.members() {
		m.DNS.Wanted = port(i)
	}
	return t
}

func (t *tour) members() []*fleet.Member {
	return []*fleet.Member{t.xicheng, t.shijiazhuang, t.minhang}
}

// port returns the port of the i'th member's DNS server, which it uses if it is free.
func port(i int) string { return fmt.Sprint(5301 + i) }

// launch starts the four control planes and writes one kubeconfig for all, with the clusters' names as contexts. The second number of a
// Service's address tells its cluster. All addresses in these ranges have the same length, whichever the API server picks.
func (t *tour) launch() error {
	group, ctx := errgroup.WithContext(t.ctx)
	group.SetLimit(3) // more would only compete for the processors
	group.Go(func() error { return t.hub.Launch(ctx) })
	for i, m := range t.members() {
		group.Go(func() error {
			return m.Launch(ctx, kube.WithServiceCIDRs(fmt.Sprintf("10.%d.0.128/25", i+1)))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	all := clientcmdapi.NewConfig()
	all.CurrentContext = t.xicheng.Name
	for _, c := range []fleet.Cluster{t.hub.Cluster, t.xicheng.Cluster, t.shijiazhuang.Cluster, t.minhang.Cluster} {
		one, err := clientcmd.LoadFromFile(c.Plane.Kubeconfig())
		if err != nil {
			return err
		}
		all.Clusters[c.Name], all.AuthInfos[c.Name] = one.Clusters["default"], one.AuthInfos["default"]
		all.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	}
	return clientcmd.WriteToFile(*all, filepath.Join(t.base, folder, "kubeconfig"))
}

// stop ends all processes.
func (t *tour) stop() {
	var group errgroup.Group
	for _, m := range t.members() {
		m.Agent.Kill()
		m.DNS.Kill()
		group.Go(func() error { m.Stop(); return nil })
	}
	t.hub.Process.Kill()
	group.Go(func() error { t.hub.Stop(); return nil })
	_ = group.Wait()
}
