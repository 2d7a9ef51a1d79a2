package datapath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// world is a hub and three clusters with their nodes.
type world struct {
	dir      string
	bin      fleet.Binaries
	network  *network
	hub      *fleet.Hub
	clusters []*cluster
	services int          // created so far, to number their namespaces
	lone     atomic.Int64 // connections from an address and port of their own
}

// cluster is a member of the set with its nodes.
type cluster struct {
	*fleet.Member
	network *network
	number  int // 1, 2, …
	nodes   []*node

	reconnect func() // restores a cluster that died, except for its agent

	dir, kubeProxy, nsenter string
}

// specs are the clusters of the set. xicheng and chaoyang share a region; no two share a zone.
var specs = []struct {
	at    fleet.Location
	nodes []nodeSpec
}{
	{fleet.Location{Cluster: "xicheng", Zone: "beijing", Region: "north"}, []nodeSpec{{"beijing", nftables}, {"beijing", iptables}}},
	{fleet.Location{Cluster: "chaoyang", Zone: "hebei", Region: "north"}, []nodeSpec{{"hebei", nftables}}},
	{fleet.Location{Cluster: "minhang", Zone: "shanghai", Region: "south"}, []nodeSpec{{"shanghai", nftables}}},
}

// launch starts the set. After an error it also returns the part that was started.
func launch(ctx context.Context, dir string) (*world, error) {
	w := &world{dir: dir}
	err := w.launch(ctx)
	return w, err
}

func (w *world) launch(ctx context.Context) error {
	var err error
	if w.network, err = newNetwork(); err != nil {
		return err
	}
	programs, err := kube.Build(ctx, kube.IncludeProxy(), kube.WithProgress(os.Stderr))
	if err != nil {
		return err
	}
	if w.bin, err = fleet.Build(ctx, "../..", w.dir, "-s -w"); err != nil {
		return err
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return err
	}
	w.hub = fleet.NewHub(w.dir, w.bin)
	var group errgroup.Group
	group.SetLimit(3) // more would only compete for the processors
	group.Go(func() error { return w.hub.Launch(ctx) })
	for i, spec := range specs {
		c := &cluster{
			Member: fleet.NewMember(w.dir, w.bin, spec.at), network: w.network, number: i + 1,
			dir: w.dir, kubeProxy: programs.Proxy, nsenter: nsenter,
		}
		w.clusters = append(w.clusters, c)
		group.Go(func() error { return c.Launch(ctx, kube.WithServiceCIDRs(services4(c.number), services6(c.number))) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := w.hub.Plane.ApplyContext(ctx, fleet.Rights("hub")); err != nil {
		return err
	}
	for i, c := range w.clusters {
		group.Go(func() error { return c.prepare(ctx, w.hub, specs[i].nodes) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return w.hub.Process.Start(ctx)
}

// prepare joins the cluster, and starts its agent and its nodes.
func (c *cluster) prepare(ctx context.Context, hub *fleet.Hub, nodes []nodeSpec) error {
	if err := c.Join(ctx, hub); err != nil {
		return err
	}
	if err := c.Plane.ApplyContext(ctx, fleet.Rights("member")); err != nil {
		return err
	}
	for _, spec := range nodes {
		if _, err := c.addNode(ctx, spec); err != nil {
			return err
		}
	}
	return c.Agent.Start(ctx)
}

// ready returns nil once the hub and every member see every member as Ready.
func (w *world) ready() error {
	var errs []error
	for _, at := range append([]fleet.Cluster{w.hub.Cluster}, w.members()...) {
		for _, of := range w.clusters {
			errs = append(errs, phaseIs(at, of.Name, clustersetv1alpha1.MemberReady))
		}
	}
	return errors.Join(errs...)
}

func (w *world) members() (all []fleet.Cluster) {
	for _, c := range w.clusters {
		all = append(all, c.Cluster)
	}
	return all
}

// phaseIs returns nil if a cluster, or the hub, sees a member in the phase.
func phaseIs(at fleet.Cluster, member string, want clustersetv1alpha1.MemberClusterPhase) error {
	var all clustersetv1alpha1.MemberClusterList
	if err := at.Client.List(context.Background(), &all); err != nil {
		return err
	}
	for _, m := range all.Items {
		if m.Name == member {
			if m.Status.Phase != want {
				return fmt.Errorf("%s: %s is %q, want %s", at.Name, member, m.Status.Phase, want)
			}
			return nil
		}
	}
	return fmt.Errorf("%s: there is no MemberCluster %s", at.Name, member)
}

func (w *world) cluster(name string) *cluster {
	for _, c := range w.clusters {
		if c.Name == name {
			return c
		}
	}
	panic("there is no cluster " + name)
}

// programs returns all programs except the control planes.
func (w *world) programs() []*fleet.Program {
	all := []*fleet.Program{w.hub.Process}
	for _, c := range w.clusters {
		all = append(all, c.Agent)
		for _, n := range c.nodes {
			if n.proxy != nil {
				all = append(all, n.proxy)
			}
		}
	}
	return all
}

// stop ends everything.
func (w *world) stop() {
	if w == nil || w.hub == nil {
		return
	}
	for _, p := range w.programs() {
		p.Kill()
	}
	var group errgroup.Group
	group.Go(func() error { w.hub.Stop(); return nil })
	for _, c := range w.clusters {
		group.Go(func() error { c.Stop(); return nil })
	}
	_ = group.Wait()
}
