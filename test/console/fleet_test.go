package console

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// clusters are a hub with its process and two members with their agents, on real API servers. The kubeconfig has the contexts hub,
// beijing and shanghai. Each connects through a link that tests can cut.
type clusters struct {
	hub        *fleet.Hub
	members    map[string]*fleet.Member
	links      map[string]*faultproxy.Link
	kubeconfig string
}

var running struct {
	sync.Once
	*clusters
	err error
}

// theFleet returns the clusters that all tests share. The first test starts them.
func theFleet(t testing.TB) *clusters {
	t.Helper()
	chromium(t)
	bin := binaries(t)
	running.Do(func() {
		running.clusters = &clusters{members: map[string]*fleet.Member{}, links: map[string]*faultproxy.Link{}}
		running.err = running.clusters.launch(context.Background(), bin) // the clusters outlive the test
	})
	if running.err != nil {
		t.Fatal(running.err)
	}
	f := running.clusters
	t.Cleanup(func() {
		for _, l := range f.links {
			l.Set(faultproxy.Condition{})
		}
		if t.Failed() {
			for _, p := range []*fleet.Program{f.hub.Process, f.members["beijing"].Agent, f.members["shanghai"].Agent} {
				t.Log(process.LogSince(p.Log, 0, 10))
			}
		}
	})
	return f
}

func (f *clusters) launch(ctx context.Context, bin fleet.Binaries) error {
	dir := filepath.Join(workDir, "fleet")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	f.hub = fleet.NewHub(dir, bin)
	for _, at := range []fleet.Location{{Cluster: "beijing", Zone: "cn-north-1a", Region: "cn-north"}, {Cluster: "shanghai", Zone: "cn-east-1a", Region: "cn-east"}} {
		f.members[at.Cluster] = fleet.NewMember(dir, bin, at)
	}
	var group errgroup.Group
	group.Go(func() error { return f.hub.Launch(ctx) })
	for _, m := range f.members {
		group.Go(func() error { return m.Launch(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, m := range f.members {
		if err := m.Join(ctx, f.hub); err != nil {
			return err
		}
		group.Go(func() error {
			if err := m.Plane.ApplyContext(ctx, fleet.Rights("member")); err != nil {
				return err
			}
			return m.Agent.Start(ctx)
		})
	}
	group.Go(func() error {
		if err := f.hub.Plane.ApplyContext(ctx, fleet.Rights("hub")); err != nil {
			return err
		}
		return f.hub.Process.Start(ctx)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return f.writeKubeconfig(filepath.Join(dir, "kubeconfig"))
}

func (f *clusters) writeKubeconfig(path string) error {
	all := clientcmdapi.NewConfig()
	planes := map[string]*kube.ControlPlane{"hub": f.hub.Plane, "beijing": f.members["beijing"].Plane, "shanghai": f.members["shanghai"].Plane}
	for name, plane := range planes {
		server, err := url.Parse(plane.URL())
		if err != nil {
			return err
		}
		link, err := faultproxy.NewLink(server.Host, 1)
		if err != nil {
			return err
		}
		f.links[name] = link
		one, err := clientcmd.LoadFromFile(plane.Kubeconfig())
		if err != nil {
			return err
		}
		c := one.Contexts[one.CurrentContext]
		all.Clusters[name], all.AuthInfos[name] = one.Clusters[c.Cluster], one.AuthInfos[c.AuthInfo]
		all.Clusters[name].Server = "https://" + link.Addr()
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	f.kubeconfig = path
	return clientcmd.WriteToFile(*all, path)
}

func stopFleet() {
	f := running.clusters
	if f == nil {
		return
	}
	for _, l := range f.links {
		l.Close()
	}
	var group errgroup.Group
	for _, m := range f.members {
		m.Agent.Kill()
		group.Go(func() error { m.Stop(); return nil })
	}
	f.hub.Process.Kill()
	f.hub.Stop()
	_ = group.Wait()
}

// console starts a console that reads the fleet.
func (f *clusters) console(t testing.TB, contexts ...string) *consoled {
	t.Helper()
	args := []string{"--hub-kubeconfig", f.kubeconfig, "--hub-context", "hub"}
	for _, c := range contexts {
		args = append(args, "--kubeconfig", f.kubeconfig, "--context", c)
	}
	return start(t, args...)
}

// service returns the manifests of the Service live/web with ready endpoints, and of its ServiceExport if it is exported.
func service(t testing.TB, ready int, export bool) []byte {
	t.Helper()
	manifests, err := os.ReadFile("testdata/service.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, exported, _ := strings.Cut(string(manifests), "# exported:\n")
	for i := range ready {
		text += fmt.Sprintf("- {addresses: [10.1.0.%d]}\n", i+1)
	}
	if export {
		text += exported
	}
	return []byte(text)
}
