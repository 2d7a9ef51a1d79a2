package datapath

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// apart is jingan, a cluster in a network of its own, which has the same pods and Services as xicheng: only the addresses of its nodes can be
// reached from elsewhere. Its two nodes reach each other's pods by a link between them.
type apart struct {
	*cluster
	w *world
}

const edgeNumber = 4

// edge starts jingan and lets it join, until the end of the test.
func (w *world) edge(t *testing.T) *apart {
	t.Helper()
	ctx := context.Background() // cleanups use it too
	at := fleet.Location{Cluster: "jingan", Zone: "puxi", Region: "south"}
	a := &apart{w: w, cluster: &cluster{
		Member: fleet.NewMember(w.dir, w.bin, at), network: w.network, number: edgeNumber,
		dir: w.dir, kubeProxy: w.clusters[0].kubeProxy, nsenter: w.clusters[0].nsenter,
	}}
	t.Cleanup(func() {
		a.Agent.Kill()
		for _, n := range a.nodes {
			n.stop()
		}
		w.clusterset(t, "leave", "--yes", a.Name) // whatever it still exports
		a.Stop()
		w.clusters = w.clusters[:len(specs)]
	})
	if err := a.Launch(ctx, kube.WithServiceCIDRs(services4(1), services6(1))); err != nil {
		t.Fatal(err)
	}
	w.clusters = append(w.clusters, a.cluster)
	if err := a.Join(ctx, w.hub, "--network", "edge", "--external-cidrs", strings.Join(external(edgeNumber), ",")); err != nil {
		t.Fatal(err)
	}
	if err := a.Plane.ApplyContext(ctx, fleet.Rights("member")); err != nil {
		t.Fatal(err)
	}
	for i, m := range []mode{nftables, iptables} {
		n, err := a.addNode(ctx, nodeSpec{"puxi", m})
		if err != nil {
			t.Fatal(err)
		}
		a.links(t, n, i+1)
	}
	for _, n := range slices.Concat(a.nodes, w.cluster("xicheng").nodes) {
		if err := n.masquerade(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, n := range w.cluster("xicheng").nodes {
			if err := n.ns.run("nft delete table inet hiding"); err != nil {
				t.Error(err)
			}
		}
	})
	xicheng := w.cluster("xicheng")
	w.configure(t, xicheng, `{"externalCIDRs":["`+strings.Join(external(xicheng.number), `","`)+`"]}`)
	t.Cleanup(func() { w.configure(t, xicheng, `{"externalCIDRs":null}`) })
	a.startAgent(t)
	kube.Eventually(t, w.ready)
	return a
}

// external returns the external networks of a cluster: its nodes and its load balancers.
func external(number int) []string {
	return []string{node4(number, 0) + "/24", fmt.Sprintf("fd00:200:%d::/48", number), balancers4(number), balancers6(number)}
}

// links gives a node the pods of xicheng's node of that number, and the way to the other node's.
func (a *apart) links(t *testing.T, n *node, number int) {
	t.Helper()
	commands := fmt.Sprintf("ip route add local %s dev lo\nip route add local %s dev lo\n", pods4(1, number), pods6(1, number))
	if err := n.ns.run(commands); err != nil {
		t.Fatal(err)
	}
	if number != 2 {
		return
	}
	first := a.nodes[0]
	err := errors.Join(
		first.ns.run("ip link add peer type veth peer name peer netns "+n.ns.path()),
		first.ns.run(linked(1, pods4(1, 2), pods6(1, 2))), n.ns.run(linked(2, pods4(1, 1), pods6(1, 1))),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// linked configures one end of the link between the nodes.
func linked(end int, there4, there6 string) string {
	return fmt.Sprintf(`
		ip addr add 10.250.0.%[1]d/30 dev peer
		ip addr add fd00:250::%[1]d/126 dev peer nodad
		ip link set peer up
		ip route add %[3]s via 10.250.0.%[2]d dev peer onlink
		ip route add %[4]s via fd00:250::%[2]d dev peer onlink
	`, end, 3-end, there4, there6)
}

// masquerade hides the pods of a node behind its address when they connect to external addresses of the other network.
func (n *node) masquerade() error {
	other := edgeNumber
	if n.cluster.number == edgeNumber {
		other = 1
	}
	to := external(other)
	return n.ns.run(fmt.Sprintf(`
		nft add table inet hiding
		nft add chain inet hiding out { type nat hook postrouting priority 110 ; }
		nft add rule inet hiding out ip saddr %s ip daddr { %s , %s } masquerade
		nft add rule inet hiding out ip6 saddr %s ip6 daddr { %s , %s } masquerade
	`, clusterPods4(1), to[0], to[2], clusterPods6(1), to[1], to[3]))
}

// pods starts a pod on each node of jingan or xicheng. Both clusters' have the same addresses.
func (a *apart) pods(s *service, c *cluster) pods {
	s.Helper()
	var all pods
	for i, n := range c.nodes {
		all = append(all, n.startPod(s, 1, i+1))
	}
	s.all = append(s.all, all...)
	return all
}

// configure changes the spec of a cluster's MemberCluster on the hub.
func (w *world) configure(t *testing.T, c *cluster, spec string) {
	t.Helper()
	m := &clustersetv1alpha1.MemberCluster{}
	m.Name = c.Name
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":%s}`, spec))
	if err := w.hub.Client.Patch(context.Background(), m, patch); err != nil { // cleanups use it too
		t.Fatal(err)
	}
}

// setReady makes a node ready or not, as the node controller would.
func (n *node) setReady(t *testing.T, status corev1.ConditionStatus) {
	t.Helper()
	var object corev1.Node
	if err := n.cluster.Client.Get(t.Context(), client.ObjectKey{Name: n.name}, &object); err != nil {
		t.Fatal(err)
	}
	object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	if err := n.cluster.Client.Status().Update(t.Context(), &object); err != nil {
		t.Fatal(err)
	}
}

// nodePort returns the port at which a cluster's nodes serve the port http.
func (s *service) nodePort(c *cluster) int32 {
	s.Helper()
	var svc corev1.Service
	if err := c.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, &svc); err != nil {
		s.Fatal(err)
	}
	return svc.Spec.Ports[slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "http" })].NodePort
}

// Two clusters with the same pods and Services use each other's external addresses. Rules D80, D84, D85, D88, D90 and D91 of docs/spec/data-path.md.
func TestNetworks(t *testing.T) {
	jingan := set(t).edge(t)
	t.Run("node ports", jingan.byNodePorts)
	t.Run("load balancers", jingan.byBalancers)
}

// byNodePorts tests two clusters of which only the nodes can be reached. They use each other's node ports: by ClusterSetIP, by an own name, and
// by SRV records.
func (a *apart) byNodePorts(t *testing.T) {
	w, jingan, xicheng := a.w, a, a.w.cluster("xicheng")
	s := w.service(t, export{spec: "type: NodePort, selector: {app: web}"}, "jingan", "xicheng")
	far, near := a.pods(s, jingan.cluster), a.pods(s, xicheng)
	if far[0].v4 != near[0].v4 || far[1].v6 != near[1].v6 {
		t.Fatalf("%v and %v aren't the same", far[0].v4, near[0].v4)
	}
	s.publish()
	s.extend("xicheng")
	s.answered("xicheng", near...)
	s.answered("jingan", far...)

	// No pod of xicheng is ready: its clients, of both names, reach jingan's pods, and come back.
	own := s.own("xicheng")
	s.extending("xicheng", netip.MustParseAddr(node4(edgeNumber, 1)), netip.MustParseAddr(node4(edgeNumber, 2)))
	s.answeredBy(own, near...)
	near.ready(false)
	s.publish()
	s.answered("xicheng", far...)
	s.answeredBy(own, far...)
	s.answeredBySRV(jingan, xicheng, far...)

	// The other way round, and with none ready anywhere nothing is answered, and nothing goes in a circle.
	near.ready(true)
	far.ready(false)
	s.publish()
	s.answered("jingan", near...)
	s.answered("xicheng", near...)
	near.ready(false)
	s.publish()
	s.answered("xicheng")
	s.answeredBy(own)
	s.answered("jingan")
	far.ready(true)
	s.publish()
	s.answered("xicheng", far...)

	// A node that isn't ready is no longer used.
	jingan.nodes[0].setReady(t, corev1.ConditionFalse)
	s.extending("xicheng", netip.MustParseAddr(node4(edgeNumber, 2)))
	s.answered("xicheng", far...)
	jingan.nodes[0].setReady(t, corev1.ConditionTrue)
	s.extending("xicheng", netip.MustParseAddr(node4(edgeNumber, 1)), netip.MustParseAddr(node4(edgeNumber, 2)))

	// In one network again the pods' addresses count, which here are xicheng's own; taken back, all is as it was.
	w.configure(t, jingan.cluster, `{"network":""}`)
	s.extending("xicheng", far[0].v4, far[1].v4)
	w.configure(t, jingan.cluster, `{"network":"edge"}`)
	s.extending("xicheng", netip.MustParseAddr(node4(edgeNumber, 1)), netip.MustParseAddr(node4(edgeNumber, 2)))
	s.answered("xicheng", far...)
}

// answeredBySRV fails the test unless the SRV records of the service, in a cluster, lead to nodes of another one, where these pods answer, and
// the name alone has no address of them.
func (s *service) answeredBySRV(of *apart, c *cluster, want ...*pod) {
	s.Helper()
	s.asks(c)
	name := "web." + s.namespace + ".svc.global."
	kube.Eventually(s, func() error {
		reply, err := c.DNS.Ask(s.Context(), "_http._tcp."+name, dns.TypeSRV)
		if err != nil {
			return err
		}
		if len(reply.Answer) != 1 || reply.Answer[0].(*dns.SRV).Target != "jingan."+name || int32(reply.Answer[0].(*dns.SRV).Port) != s.nodePort(of.cluster) {
			return fmt.Errorf("SRV is %v", reply.Answer)
		}
		var nodes []netip.Addr
		for _, rr := range reply.Extra {
			if a, ok := rr.(*dns.A); ok {
				addr, _ := netip.AddrFromSlice(a.A.To4())
				nodes = append(nodes, addr)
			}
		}
		if err := s.answeredIn(c, reply.Answer[0].(*dns.SRV).Port, want, nodes...); err != nil {
			return err
		}
		if reply, err = c.DNS.Ask(s.Context(), name, dns.TypeA); err != nil || strings.Contains(fmt.Sprint(reply.Answer), node4(edgeNumber, 1)) {
			return fmt.Errorf("A is %v, %w", reply, err)
		}
		return nil
	})
}

// answeredIn returns nil if connections from a cluster to the port at these addresses are answered by these pods, and by no others.
func (s *service) answeredIn(c *cluster, port uint16, want pods, at ...netip.Addr) error {
	got := map[string]int{}
	for _, addr := range at {
		counts, err := c.nodes[0].ask("tcp", netip.AddrPortFrom(addr, port), c.nodes[0].client(false, 249), 30)
		if err != nil {
			return err
		}
		for who, n := range counts {
			got[who] += n
		}
	}
	if who := slices.Sorted(maps.Keys(got)); !slices.Equal(who, want.names(false)) {
		return fmt.Errorf("%v answered", got)
	}
	return nil
}

// asks starts a cluster's DNS server, until the end of the test.
func (s *service) asks(c *cluster) {
	s.Helper()
	c.Plane.Apply(s, fleet.Rights("dns"))
	if err := c.DNS.Start(context.Background()); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(c.DNS.Kill)
}
