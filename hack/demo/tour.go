package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// folder is the directory for all files of the demo, below the directory where its commands run.
const folder = ".demo"

// soon bounds each wait. It is far longer than any step takes, because the machine may be compiling at the same time.
const soon = 2 * time.Minute

// tour is one run of the demo.
type tour struct {
	terminal io.Writer
	colours  bool
	rewrites bool   // what is printed differs from the page: it is taken over
	root     string // the root of the repository
	base     string // where the commands run
	bin      fleet.Binaries
	hub      *fleet.Hub
	members  []*fleet.Member
	known    map[string]string // the page's addresses of Services, by those of this run
}

// newTour describes the fleet.
func newTour(terminal io.Writer, root, base string, bin fleet.Binaries) *tour {
	dir := filepath.Join(base, folder)
	t := &tour{terminal: terminal, root: root, base: base, bin: bin, hub: fleet.NewHub(dir, bin), known: map[string]string{}}
	for i, at := range []fleet.Location{
		{Cluster: "xicheng", Zone: "beijing", Region: "north"},
		{Cluster: "shijiazhuang", Zone: "hebei", Region: "north"},
		{Cluster: "minhang", Zone: "shanghai", Region: "south"},
	} {
		m := fleet.NewMember(dir, bin, at)
		m.DNS.Wanted = port(i)
		t.members = append(t.members, m)
	}
	return t
}

// port returns the port of the i'th member's DNS server, which it uses if it is free.
func port(i int) string { return fmt.Sprint(5301 + i) }

func (t *tour) member(name string) (*fleet.Member, error) {
	for _, m := range t.members {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no member %q", name)
}

// launch starts the four control planes and writes one kubeconfig for all, with the clusters' names as contexts. The second number of a
// Service's address tells its cluster. All addresses in these ranges have the same length, whichever the API server picks.
func (t *tour) launch(ctx context.Context) error {
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(3) // more would only compete for the processors
	group.Go(func() error { return t.hub.Launch(inGroup) })
	clusters := []*fleet.Cluster{&t.hub.Cluster}
	for i, m := range t.members {
		clusters = append(clusters, &m.Cluster)
		group.Go(func() error {
			return m.Launch(inGroup, kube.WithServiceCIDRs(fmt.Sprintf("10.%d.0.128/25", i+1)))
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	all := clientcmdapi.NewConfig()
	for _, c := range clusters {
		one, err := clientcmd.LoadFromFile(c.Plane.Kubeconfig())
		if err != nil {
			return err
		}
		all.Clusters[c.Name], all.AuthInfos[c.Name] = one.Clusters["default"], one.AuthInfos["default"]
		all.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: c.Name}
	}
	all.CurrentContext = t.members[0].Name
	return clientcmd.WriteToFile(*all, filepath.Join(t.base, folder, "kubeconfig"))
}

// startProcesses starts the hub process, the agents and the DNS servers, each with the rights that the chart gives it.
func (t *tour) startProcesses(ctx context.Context) error {
	namespace := []byte("{apiVersion: v1, kind: Namespace, metadata: {name: " + api.SystemNamespace + "}}")
	if err := t.hub.Plane.ApplyContext(ctx, namespace, fleet.Rights("hub"), fleet.Rights("hub-leader")); err != nil {
		return err
	}
	if err := t.hub.Process.Start(ctx); err != nil {
		return err
	}
	for _, m := range t.members {
		if err := m.Plane.ApplyContext(ctx, fleet.Rights("member"), fleet.Rights("dns")); err != nil {
			return err
		}
		if err := errors.Join(m.MountHubSecret(ctx), m.Agent.Start(ctx), m.DNS.Start(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// restartHub restarts the hub process as kubectl rollout restart would, with other flags.
func (t *tour) restartHub(ctx context.Context, flags []string) error {
	if code := t.hub.Process.Stop(); code != 0 {
		return fmt.Errorf("the hub process ended with exit code %d\n%s", code, process.LogSince(t.hub.Process.Log, 0, 20))
	}
	t.hub.Flags = flags
	return t.hub.Process.Start(ctx)
}

// power ends all processes of a cluster at once, or starts them again.
func power(ctx context.Context, on bool, m *fleet.Member) error {
	if !on {
		m.Agent.Kill()
		m.DNS.Kill()
		m.Plane.KillAPIServer()
		m.Plane.StopEtcd()
		return nil
	}
	for _, start := range []func(context.Context) error{m.Plane.StartEtcd, m.Plane.StartAPIServer, m.Agent.Start, m.DNS.Start} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stop ends all processes.
func (t *tour) stop() {
	var group errgroup.Group
	for _, m := range t.members {
		m.Agent.Kill()
		m.DNS.Kill()
		group.Go(func() error { m.Stop(); return nil })
	}
	t.hub.Process.Kill()
	group.Go(func() error { t.hub.Stop(); return nil })
	_ = group.Wait()
}
