package datapath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/fleet"
)

// mode is kube-proxy's proxy mode.
type mode string

const (
	nftables mode = "nftables"
	iptables mode = "iptables"
)

// nodeSpec describes a node. Without a zone it has no zone label.
type nodeSpec struct {
	zone string
	mode mode
}

// node is a network namespace with a kube-proxy or a stand-in for another service proxy, and its Node object. There is no kubelet.
type node struct {
	nodeSpec
	name    string
	cluster *cluster
	number  int // 1, 2, …
	ns      *namespace
	proxy   *fleet.Program
	end     func()       // ends the stand-in
	given   int          // pod addresses handed out so far
	api     net.Listener // the cluster's API server
}

// addNode creates a node and starts its kube-proxy. After an error it also returns the part that was created.
func (c *cluster) addNode(ctx context.Context, spec nodeSpec) (*node, error) {
	n := &node{nodeSpec: spec, cluster: c, number: len(c.nodes) + 1}
	n.name = fmt.Sprintf("%s-%d", c.Name, n.number)
	c.nodes = append(c.nodes, n)
	if err := n.start(ctx); err != nil {
		return n, fmt.Errorf("start node %s: %w", n.name, err)
	}
	return n, nil
}

// node adds a node to the cluster until the end of the test.
func (c *cluster) node(t *testing.T, spec nodeSpec) *node {
	t.Helper()
	n, err := c.addNode(t.Context(), spec)
	t.Cleanup(func() {
		c.nodes = c.nodes[:len(c.nodes)-1]
		n.stop()
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// stop ends the node and removes its Node object and its interfaces.
func (n *node) stop() {
	if n.proxy != nil {
		n.proxy.Kill()
	}
	if n.end != nil {
		n.end()
	}
	if n.api != nil {
		_ = n.api.Close()
	}
	_ = n.cluster.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}})
	if n.ns != nil {
		_ = n.cluster.network.router.run("ip link del " + port(n.cluster.number, n.number))
		n.ns.close()
	}
}

// relabel changes the node's zone.
func (n *node) relabel(t *testing.T, zone string) {
	t.Helper()
	if err := n.setZone(context.Background(), zone); err != nil {
		t.Fatal(err)
	}
}

func (n *node) start(ctx context.Context) (err error) {
	if n.ns, err = newNamespace(); err != nil {
		return err
	}
	if err := n.cluster.network.plug(n.ns, n.cluster.number, n.number); err != nil {
		return err
	}
	if n.api, err = n.listenFor(n.cluster.Plane.URL()); err != nil {
		return err
	}
	// The node gets its zone only once kube-proxy runs. kube-proxy 1.36 and 1.37 (cmd/kube-proxy/app/server.go) starts to watch its
	// Node's labels a moment before it registers the handler that stores them. On a busy machine the first event arrives in
	// between, and kube-proxy then assumes that the node has no zone until the label changes.
	zone := n.zone
	if err := n.setZone(ctx, ""); err != nil {
		return err
	}
	if n.mode == ovn {
		n.end = n.standIn()
		return n.setZone(ctx, zone)
	}
	kubeconfig, err := n.cluster.Plane.KubeconfigFor("system:kube-proxy") // has the role system:node-proxier
	if err != nil {
		return err
	}
	config := filepath.Join(n.cluster.dir, n.name+"-proxy.yaml")
	if err := os.WriteFile(config, []byte(n.proxyConfig(kubeconfig)), 0o600); err != nil {
		return err
	}
	n.proxy = &fleet.Program{
		Name: "kube-proxy of " + n.name, Path: n.cluster.nsenter, Log: filepath.Join(n.cluster.dir, n.name+"-proxy.log"),
		Args: func() ([]string, error) {
			return []string{"--net=" + n.ns.path(), "--", n.cluster.kubeProxy, "--config=" + config, "--v=2"}, nil
		},
		Up: n.proxyStarted,
	}
	if err := n.proxy.Start(ctx); err != nil {
		return err
	}
	return n.setZone(ctx, zone)
}

// proxyConfig returns kubeadm's configuration with two differences: kube-proxy applies changes at once (the default is a second
// after the last change), and settings that affect the whole machine are left out.
func (n *node) proxyConfig(kubeconfig string) string {
	c := n.cluster.number
	return fmt.Sprintf(`
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %s
hostnameOverride: %s
bindAddress: 0.0.0.0
clientConnection: {kubeconfig: %s}
clusterCIDR: %s
detectLocalMode: ClusterCIDR
nftables: {minSyncPeriod: 100ms}
iptables: {minSyncPeriod: 100ms, localhostNodePorts: false}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
oomScoreAdj: 0
healthzBindAddress: %s
metricsBindAddress: "127.0.0.1:10249"
`, n.mode, n.name, kubeconfig, clusterPods4(c)+","+clusterPods6(c), healthz)
}

const healthz = "127.0.0.1:10256"

// healthy returns nil once kube-proxy has applied all changes.
func (n *node) healthy(ctx context.Context) error { return n.get(ctx, "http://"+healthz+"/healthz") }

// proxyStarted returns nil once kube-proxy is healthy and has recorded its Starting event. Health alone isn't enough, because
// kube-proxy reports it while it starts. After the event all its handlers are registered.
func (n *node) proxyStarted(ctx context.Context) error {
	if err := n.healthy(ctx); err != nil {
		return err
	}
	var events eventsv1.EventList
	if err := n.cluster.Client.List(ctx, &events); err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.Reason == "Starting" && e.Regarding.Name == n.name {
			return nil
		}
	}
	return errors.New("kube-proxy has reported no start")
}

// get returns nil if a GET of the URL from the node returns 200.
func (n *node) get(ctx context.Context, from string) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: n.dialContext}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: transport, Timeout: 5 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", from, resp.Status)
	}
	return nil
}

// dialContext connects from the node, from any of its addresses.
func (n *node) dialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.ns.do(func() error {
		conn, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// setZone writes the Node object with a zone label, or without one if zone is empty.
func (n *node) setZone(ctx context.Context, zone string) error {
	c := n.cluster.number
	labels := "kubernetes.io/hostname: " + n.name
	if zone != "" {
		labels += ", topology.kubernetes.io/zone: " + zone
	}
	annotations := map[mode]string{ovn: "k8s.ovn.org/node-chassis-id: b1f96182"}[n.mode]
	manifest := fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}, annotations: {%s}}, spec: {podCIDR: %q, podCIDRs: [%q, %q]}}",
		n.name, labels, annotations, pods4(c, n.number), pods4(c, n.number), pods6(c, n.number))
	if err := n.cluster.Plane.ApplyContext(ctx, []byte(manifest)); err != nil {
		return err
	}
	n.zone = zone
	var object corev1.Node
	if err := n.cluster.Client.Get(ctx, client.ObjectKey{Name: n.name}, &object); err != nil {
		return err
	}
	object.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: node4(c, n.number)}, {Type: corev1.NodeInternalIP, Address: node6(c, n.number)},
	}
	object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n.cluster.Client.Status().Update(ctx, &object)
}

// listenFor makes an API server, which listens on the machine's loopback interface, reachable from the node at the same address.
func (n *node) listenFor(server string) (net.Listener, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	if err := n.ns.do(func() error {
		listener, err = net.Listen("tcp", u.Host)
		return err
	}); err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(conn, u.Host)
		}
	}()
	return listener, nil
}

// relay connects to the address in the machine's own namespace and copies in both directions.
func relay(from net.Conn, address string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	done := make(chan struct{}, 2)
	for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
		go func() {
			_, _ = io.Copy(ends[0], ends[1]) // either end may close at any time
			done <- struct{}{}
		}()
	}
	<-done
}
