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

// folder is where the demo keeps everything, below the directory in which its commands run.
const folder = ".demo"

// soon bounds each wait. It is far more than anything takes, for machines that compile beside.
const soon = 2 * time.Minute

// tour is one run of the demo. Its methods do nothing once one of them has failed: what was promised and did not come is
// in err, and the rest of the story would make no sense.
type tour struct {
	*page
	ctx  context.Context
	err  error
	root string // of the repository
	base string // where the commands run
	bin  fleet.Binaries
	hub  *fleet.Hub

	xicheng, shijiazhuang, minhang *fleet.Member
}

// newTour describes the fleet. The first number of each cluster's addresses that differs says whose an address is; ranges of
// this size and place have addresses of one length only, whichever of them the API server picks.
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

// port is that of the i-th member's DNS server, if it is free.
func port(i int) string { return fmt.Sprint(5301 + i) }

// launch starts the four control planes and writes one kubeconfig for all, with the clusters' names as contexts.
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

// stop ends everything.
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
