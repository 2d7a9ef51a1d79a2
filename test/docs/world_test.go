package docs

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// contexts are the pages' clusters, as contexts of a kubeconfig, each with its range of Service addresses.
var contexts = []struct{ name, cidr string }{
	{"beijing", "10.96.0.0/16"},
	{"shanghai", "10.97.0.0/16"},
	{"guangzhou", "10.98.0.0/16"},
}

// world is the environment of the pages' sessions: clusters with a cluster DNS as kubeadm installs it, a checkout of the
// repository, and the programs.
type world struct {
	dir   string // the checkout
	env   []string
	nodes []*node
}

func newWorld(t *testing.T) *world {
	t.Helper()
	fleettest.SkipIfShort(t) // before anything is begun
	dir := t.TempDir()
	w := &world{dir: filepath.Join(dir, "clusterset")}
	network := &network{path: filepath.Join(dir, "addresses"), served: map[string]string{}}
	for _, c := range contexts {
		w.nodes = append(w.nodes, &node{name: c.name, dir: filepath.Join(dir, c.name), net: network, pods: map[string]*pod{}})
	}
	var group errgroup.Group
	group.Go(build)
	group.Go(fetchCommands)
	group.Go(func() error { return checkout(w.dir) })
	for i, c := range contexts {
		w.nodes[i].plane = kube.Start(t, kube.WithServiceCIDRs(c.cidr)) // not in the group: only the test's goroutine may call t.Fatal
		group.Go(func() error { return w.nodes[i].prepare(c.cidr) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := w.writeKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	w.runNodes(t)
	goEnv, err := command(".", "go", "env", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB").Output()
	if err != nil {
		t.Fatal(err)
	}
	g := lines(string(goEnv))
	w.env = []string{
		"PATH=" + binDir + ":" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + kubeconfig, "DIG_ADDRESSES=" + network.path,
		"GOCACHE=" + g[0], "GOMODCACHE=" + g[1], "GOPROXY=" + g[2], "GOSUMDB=" + g[3], "GOFLAGS=-buildvcs=false", "TMPDIR=" + os.TempDir(), "NO_COLOR=1", "TERM=dumb",
	}
	return w
}

func (w *world) runNodes(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var nodes sync.WaitGroup
	for _, n := range w.nodes {
		nodes.Go(func() { n.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		nodes.Wait()
		if t.Failed() {
			for _, n := range w.nodes {
				logs, _ := filepath.Glob(filepath.Join(n.dir, "*", "log"))
				for _, path := range logs {
					t.Logf("%s:\n%s", strings.TrimPrefix(path, filepath.Dir(n.dir)), process.LogSince(path, 0, 15))
				}
			}
		}
	})
}

// writeKubeconfig writes one file with a context for each cluster.
func (w *world) writeKubeconfig(path string) error {
	all := clientcmdapi.NewConfig()
	for _, n := range w.nodes {
		one, err := clientcmd.LoadFromFile(n.plane.Kubeconfig())
		if err != nil {
			return err
		}
		c := one.Contexts[one.CurrentContext]
		all.Clusters[n.name], all.AuthInfos[n.name] = one.Clusters[c.Cluster], one.AuthInfos[c.AuthInfo]
		all.Contexts[n.name] = &clientcmdapi.Context{Cluster: n.name, AuthInfo: n.name}
	}
	all.CurrentContext = w.nodes[0].name
	return clientcmd.WriteToFile(*all, path)
}

// prepare creates the cluster DNS that kubeadm would.
func (n *node) prepare(cidr string) error {
	clients, err := kubernetes.NewForConfig(n.plane.Config())
	if err != nil {
		return err
	}
	n.clients = clients
	content, err := os.ReadFile("testdata/kubeadm-dns.yaml")
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(content), "CLUSTER-DNS", strings.TrimSuffix(cidr, "0.0/16")+"0.10")
	return n.plane.ApplyContext(context.Background(), []byte(text))
}

// checkout copies the repository without build output, so that commands may write there.
func checkout(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return command(root, "bash", "-o", "pipefail", "-c", `ls -A | grep -vxE '\.git|bin|dist' | xargs -I{} cp -R {} "$0"`, dir).Run()
}

// fabdns creates in guangzhou what FabDNS leaves in a cluster: its CRD, GlobalServices in two namespaces as service-hub writes them,
// and the Services, which a user has marked for export.
func fabdns(w *world) error {
	ctx, guangzhou := context.Background(), w.nodes[2]
	// An earlier page uninstalled clusterset there. The namespace controller, which the world hasn't, would have removed the namespace.
	namespaces := guangzhou.clients.CoreV1().Namespaces()
	system, err := namespaces.Get(ctx, api.SystemNamespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	system.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(ctx, system, metav1.UpdateOptions{}); err != nil {
		return err
	}
	content, err := os.ReadFile("testdata/fabdns.yaml")
	if err != nil {
		return err
	}
	return guangzhou.plane.ApplyContext(ctx, append(crds.All(), content)...)
}
