package datapath

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// The chart's two DNS servers are replaced one after another, as by its Deployment, while clients query them through kube-proxy
// over sockets that they keep. No server can prevent the loss of one query: kube-proxy may remove a client's conntrack entry while
// the answer is under way. But no client may lose two queries in a row, as happens to all clients of a server that ends at once or
// falls silent. The exception is a socket for which such an answer created a conntrack entry that captures its later queries
// (asker.blocked); the test replaces it.
func TestRolloutOfDNSServers(t *testing.T) {
	w := set(t)
	s := w.service(t, export{}, "xicheng")
	own := s.pods("xicheng", 1)
	s.publish()
	s.answered("xicheng", own...)
	r := newRollout(s)
	old := []*dnsServer{r.start(), r.start()}
	askers := r.askers(8)
	for _, o := range old {
		r.start()
		r.end(o)
	}
	r.stopAsking(askers)
	answered, lost, replaced := int64(0), 0, 0
	for _, a := range askers {
		answered += a.answered.Load()
		lost += a.lost
		replaced += a.replaced
		if a.inARow > 1 {
			t.Errorf("an asker on %s (%s): %d answers, %d queries without one, %d in a row",
				a.node.name, a.node.mode, a.answered.Load(), a.lost, a.inARow)
		}
	}
	if replaced > len(askers)/2 {
		t.Errorf("%d of %d sockets were replaced, far too many for a race", replaced, len(askers))
	}
	t.Logf("of %d queries over %d sockets %d got no answer; %d sockets were replaced", answered+int64(lost), len(askers), lost, replaced)
}

// rollout is the Service of the DNS servers of xicheng. It does for them what the kubelet and the endpointslice controller would.
type rollout struct {
	*service
	cluster  *cluster
	vip      netip.Addr
	corefile string

	mu      sync.Mutex
	started int
	servers []*dnsServer
	done    chan struct{}
	asking  sync.WaitGroup
}

// dnsServer is a server that runs in a node's namespace, with its own address.
type dnsServer struct {
	*fleet.Program
	node                 *node
	addr                 netip.Addr
	serving, terminating bool
}

func newRollout(s *service) *rollout {
	s.Helper()
	r := &rollout{service: s, cluster: s.w.cluster("xicheng"), done: make(chan struct{}), corefile: chartCorefile(s)}
	s.apply(r.cluster, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: dns}, spec: {ports: [{name: dns, protocol: UDP, port: 53, targetPort: 1053}]}}`, s.namespace))
	s.apply(r.cluster, string(fleet.Rights("dns")))
	var created corev1.Service
	if err := r.cluster.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "dns"}, &created); err != nil {
		s.Fatal(err)
	}
	r.vip = netip.MustParseAddr(created.Spec.ClusterIP)
	s.Cleanup(func() {
		for _, d := range r.servers {
			d.Kill()
		}
		_ = r.cluster.Client.Delete(context.Background(), &created)
	})
	return r
}

// start starts a server on the next node, waits until it is ready, and publishes its endpoint.
func (r *rollout) start() *dnsServer {
	r.Helper()
	d := &dnsServer{node: r.cluster.nodes[r.started%2], addr: r.cluster.nodes[r.started%2].client(false, 200+r.started)}
	r.started++
	base := filepath.Join(r.TempDir(), "dns")
	kubeconfig, err := r.cluster.Plane.KubeconfigFor("clusterset-dns")
	if err != nil {
		r.Fatal(err)
	}
	text := strings.NewReplacer("@ADDR@", d.addr.String(), "@KUBECONFIG@", kubeconfig, "@DIR@", filepath.Dir(base)).Replace(r.corefile)
	if err := os.WriteFile(base+".Corefile", []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { // runs before the log's folder is removed
		if r.Failed() {
			r.Log(process.LogSince(d.Log, 0, 30))
		}
	})
	d.Program = &fleet.Program{
		Name: "CoreDNS at " + d.addr.String(), Path: r.cluster.nsenter, Log: base + ".log",
		Args: func() ([]string, error) {
			return []string{"--net=" + d.node.ns.path(), "--", r.w.bin.CoreDNS, "-conf", base + ".Corefile"}, nil
		},
		Up: d.probe,
	}
	if err := d.Start(r.Context()); err != nil {
		r.Fatal(err)
	}
	r.mu.Lock()
	r.servers = append(r.servers, d)
	r.mu.Unlock()
	r.probeAll()
	return d
}

// end deletes a server's pod: the server gets SIGTERM at once, and its endpoint is no longer ready, but stays serving while its
// probe succeeds. end returns when the server has ended. It probes less often than the chart, so that a server that falls silent
// before the next probe loses two queries of a client.
func (r *rollout) end(d *dnsServer) {
	r.Helper()
	r.mu.Lock()
	d.terminating = true
	r.mu.Unlock()
	r.probeAll()
	code := make(chan int)
	go func() { code <- d.Stop() }()
	probes := time.NewTicker(2 * dnsPatience)
	defer probes.Stop()
	for {
		select {
		case c := <-code:
			if c != 0 {
				r.Errorf("%s ended with exit code %d:\n%s", d.Name, c, process.LogSince(d.Log, 0, 30))
			}
			r.mu.Lock()
			for i := range r.servers {
				if r.servers[i] == d {
					r.servers = append(r.servers[:i], r.servers[i+1:]...)
					break
				}
			}
			r.mu.Unlock()
			r.probeAll()
			return
		case <-probes.C:
			r.probeAll()
		}
	}
}

// probeAll probes every server once and applies the EndpointSlice. One failure makes a server not serving, as with the chart's
// failureThreshold.
func (r *rollout) probeAll() {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var endpoints []string
	for _, d := range r.servers {
		d.serving = d.probe(r.Context()) == nil
		endpoints = append(endpoints, fmt.Sprintf("{addresses: [%q], nodeName: %s, conditions: {ready: %t, serving: %t, terminating: %t}}",
			d.addr, d.node.name, d.serving && !d.terminating, d.serving, d.terminating))
	}
	r.apply(r.cluster, fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: %s, name: dns, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{name: dns, protocol: UDP, port: 1053}]
endpoints: [%s]
`, r.namespace, strings.Join(endpoints, ", ")))
}

// probe performs the chart's readiness probe.
func (d *dnsServer) probe(ctx context.Context) error {
	return d.node.get(ctx, "http://"+netip.AddrPortFrom(d.addr, 8181).String()+"/ready")
}

// dnsPatience is how long an asker waits for an answer. It is less than half of the five seconds for which a server with shed and
// the health plugin's lameduck is silent before it ends.
const dnsPatience = 2 * time.Second

// asker sends one query after the other over the same socket.
type asker struct {
	node         *node
	vip          netip.Addr
	conn         *dns.Conn
	answered     atomic.Int64
	failure      atomic.Value // the last error
	lost, inARow int          // queries without an answer: in total, and the most in a row
	replaced     int          // sockets replaced
}

// askers starts the given number of askers on every node of the cluster. They run until stopAsking, which first waits until each
// has had 20 more answers.
func (r *rollout) askers(each int) []*asker {
	r.Helper()
	var all []*asker
	for _, n := range r.cluster.nodes {
		for range each {
			a := &asker{node: n, vip: r.vip}
			kube.Eventually(r, a.dial)
			r.Cleanup(func() { _ = a.conn.Close() })
			kube.Eventually(r, func() error { return a.ask(r.namespace) }) // kube-proxy may not have programmed the servers yet
			r.asking.Go(func() { a.askUntil(r.done, r.namespace) })
			all = append(all, a)
		}
	}
	return all
}

func (r *rollout) stopAsking(all []*asker) {
	r.Helper()
	for _, a := range all {
		from := a.answered.Load()
		kube.Eventually(r, func() error {
			if a.answered.Load() < from+20 {
				return fmt.Errorf("an asker on %s (%s) gets no answers any more: %v", a.node.name, a.node.mode, a.failure.Load())
			}
			return nil
		})
	}
	close(r.done)
	r.asking.Wait()
}

func (a *asker) askUntil(done <-chan struct{}, namespace string) {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	inARow := 0
	for {
		select {
		case <-done:
			return
		case <-pace.C:
		}
		err := a.ask(namespace)
		if err == nil {
			a.answered.Add(1)
			inARow = 0
			continue
		}
		a.failure.Store(err.Error())
		a.lost++
		inARow++
		if inARow > 1 && a.blocked() && a.dial() == nil {
			a.replaced++
			inARow = 0
		}
		a.inARow = max(a.inARow, inARow)
	}
}

func (a *asker) dial() error {
	conn, err := a.node.dial("udp", netip.AddrPortFrom(a.vip, 53), a.node.client(false, 252))
	if err != nil {
		return err
	}
	if a.conn != nil {
		_ = a.conn.Close()
	}
	a.conn = &dns.Conn{Conn: conn}
	return nil
}

// blocked reports whether the node has a conntrack entry for a connection from the Service's ClusterIP to the asker's socket. An
// answer that is under way while kube-proxy removes the socket's entry sometimes creates it. The kernel then treats the socket's
// queries as replies and doesn't translate them to a server, and each query keeps the entry alive.
func (a *asker) blocked() bool {
	var entries []byte
	if err := a.node.ns.do(func() (err error) {
		entries, err = os.ReadFile("/proc/thread-self/net/nf_conntrack")
		return err
	}); err != nil {
		return false
	}
	return blocks(entries, a.vip, netip.MustParseAddrPort(a.conn.LocalAddr().String()))
}

// blocks reports whether such an entry is among the lines of nf_conntrack.
func blocks(entries []byte, vip netip.Addr, socket netip.AddrPort) bool {
	original := fmt.Appendf(nil, " src=%s dst=%s sport=53 dport=%d ", vip, socket.Addr(), socket.Port())
	for line := range bytes.Lines(entries) {
		// An entry has two groups of src, dst, sport and dport: the first packet's and the replies'. Only the first group counts.
		if i := bytes.Index(line, original); i >= 0 && !bytes.Contains(line[:i], []byte(" src=")) {
			return true
		}
	}
	return false
}

// The first two entries are from a socket that got no more answers, the third from one that works.
func TestBlocks(t *testing.T) {
	entries := []byte(`ipv4     2 udp      17 25 src=10.201.1.200 dst=10.201.2.252 sport=1053 dport=39637 [UNREPLIED] src=10.201.2.252 dst=10.201.1.200 sport=39637 dport=1053 mark=0 use=1
ipv4     2 udp      17 117 src=10.101.164.196 dst=10.201.2.252 sport=53 dport=39637 src=10.201.2.252 dst=10.101.164.196 sport=39637 dport=53 [ASSURED] mark=0 use=1
ipv4     2 udp      17 117 src=10.201.2.252 dst=10.101.164.196 sport=39638 dport=53 src=10.101.164.196 dst=10.201.2.252 sport=53 dport=39638 [ASSURED] mark=0 use=1
`)
	for port, want := range map[uint16]bool{39637: true, 39638: false, 3963: false} {
		socket := netip.AddrPortFrom(netip.MustParseAddr("10.201.2.252"), port)
		if got := blocks(entries, netip.MustParseAddr("10.101.164.196"), socket); got != want {
			t.Errorf("%s: %t", socket, got)
		}
	}
}

func (a *asker) ask(namespace string) error {
	m := new(dns.Msg).SetQuestion("web."+namespace+".svc.clusterset.local.", dns.TypeA)
	if err := a.conn.SetDeadline(time.Now().Add(dnsPatience)); err != nil {
		return err
	}
	if err := a.conn.WriteMsg(m); err != nil {
		return err
	}
	for {
		reply, err := a.conn.ReadMsg()
		switch {
		case err != nil:
			return err
		case reply.Id == m.Id && len(reply.Answer) != 1:
			return fmt.Errorf("got %v", reply)
		case reply.Id == m.Id:
			return nil
		}
	}
}

var (
	serverRE = regexp.MustCompile(`(?m)^\S.* \{$`)
	stanzaRE = regexp.MustCompile(`(?m)^    clusterset \{$`)
	wildRE   = regexp.MustCompile(`(?m)^(    (?:health|ready|prometheus)) (:\d+)`)
)

// chartCorefile returns the Corefile of the chart's DNS servers, with placeholders for the server's own address, kubeconfig and
// folder. Servers share a node's namespace, so none may listen on all addresses.
func chartCorefile(t testing.TB) string {
	t.Helper()
	manifests, err := os.ReadFile("../chart/testdata/defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range strings.Split(string(manifests), "\n---\n") {
		var config corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &config); err != nil || config.Data["Corefile"] == "" {
			continue
		}
		text := wildRE.ReplaceAllString(config.Data["Corefile"], "${1} @ADDR@${2}")
		text = serverRE.ReplaceAllString(text, "${0}\n    bind @ADDR@")
		text = stanzaRE.ReplaceAllString(text, "${0}\n        kubeconfig @KUBECONFIG@")
		text = strings.NewReplacer("/var/lib/clusterset", "@DIR@", "{$CLUSTERSET_CLUSTER}", "xicheng",
			"{$CLUSTERSET_ZONE}", "beijing", "{$CLUSTERSET_REGION}", "north").Replace(text)
		if strings.Count(text, "@ADDR@") < 4 || !strings.Contains(text, "@KUBECONFIG@") {
			t.Fatalf("the chart's Corefile isn't as expected:\n%s", text)
		}
		return text
	}
	t.Fatal("no ConfigMap holds a Corefile")
	return ""
}
