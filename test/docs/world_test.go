package docs

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/kube"
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
					t.Logf("%s:\n%s", strings.TrimPrefix(path, filepath.Dir(n.dir)), tail(path, 15))
				}
			}
		}
	})
}

func tail(path string, n int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	return indented(strings.Join(all[max(0, len(all)-n):], "\n"))
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
	text := strings.ReplaceAll(kubeadmDNS, "CLUSTER-DNS", strings.TrimSuffix(cidr, "0.0/16")+"0.10")
	return n.plane.ApplyContext(context.Background(), []byte(text))
}

// kubeadmDNS is the part of kubeadm's cluster DNS that the pages need.
const kubeadmDNS = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: kube-system, name: coredns}
data:
  Corefile: |
    .:53 {
        errors
        health {
           lameduck 5s
        }
        ready
        kubernetes cluster.local in-addr.arpa ip6.arpa {
           pods insecure
           fallthrough in-addr.arpa ip6.arpa
           ttl 30
        }
        prometheus :9153
        forward . /etc/resolv.conf {
           max_concurrent 1000
        }
        cache 30
        loop
        reload
        loadbalance
    }
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: kube-system, name: coredns}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:coredns}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: coredns}]
---
apiVersion: v1
kind: Service
metadata: {namespace: kube-system, name: kube-dns, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: CLUSTER-DNS
  selector: {k8s-app: kube-dns}
  ports:
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53, protocol: TCP}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: kube-system, name: coredns, labels: {k8s-app: kube-dns}}
spec:
  replicas: 2
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      serviceAccountName: coredns
      containers:
      - name: coredns
        image: registry.k8s.io/coredns/coredns
        args: [-conf, /etc/coredns/Corefile]
        volumeMounts: [{name: config-volume, mountPath: /etc/coredns}]
      volumes: [{name: config-volume, configMap: {name: coredns}}]
`

// checkout copies the repository without build output, so that commands may write there.
func checkout(dir string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "dist"}, name) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(dir, name), 0o755)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("copy the repository: %w", err)
		}
		return os.WriteFile(filepath.Join(dir, name), content, 0o644)
	})
}
