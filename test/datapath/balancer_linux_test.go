package datapath

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/kube"
)

// Cluster c has load balancers at 192.0.2.(16c+1) and fd00:192:c::1, and so on.

func balancers4(c int) string { return fmt.Sprintf("192.0.2.%d/28", 16*c) }
func balancers6(c int) string { return fmt.Sprintf("fd00:192:%d::/48", c) }

func balancer4(c, i int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("192.0.2.%d", 16*c+i))
}

func balancer6(c, i int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:192:%d::%d", c, i))
}

// balancer is what has the addresses of all load balancers: a namespace that sends connections on to a port of a node, with its own address as
// their source. An address that it doesn't serve can't be reached.
type balancer struct{ ns *namespace }

// balancer starts it, until the end of the test.
func (w *world) balancer(t *testing.T) *balancer {
	t.Helper()
	ns, err := newNamespace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.network.router.run("ip link del balancer")
		ns.close()
	})
	err = errors.Join(
		ns.set("net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1", "net/ipv6/conf/default/accept_dad=0"),
		w.network.router.run(fmt.Sprintf(`
			ip link add balancer type veth peer name eth0 netns %s
			ip addr add 10.200.0.1/32 dev balancer
			ip addr add fe80::1/64 dev balancer nodad
			ip link set balancer up
			ip route add 192.0.2.1 dev balancer
			ip route add fd00:192::1 dev balancer
			ip route add 192.0.2.0/24 via 192.0.2.1 dev balancer onlink
			ip route add fd00:192::/32 via fd00:192::1 dev balancer onlink
		`, ns.path())),
		ns.run(`
			ip addr add 192.0.2.1/32 dev eth0
			ip addr add fd00:192::1/128 dev eth0 nodad
			ip link set eth0 up
			ip route add 10.200.0.1 dev eth0
			ip route add default via 10.200.0.1
			ip route add default via fe80::1 dev eth0
			ip route add unreachable 192.0.2.0/24
			ip route add unreachable fd00:192::/32
			nft add table inet balancer
			nft add chain inet balancer in { type nat hook prerouting priority dstnat ; }
			nft add chain inet balancer out { type nat hook postrouting priority srcnat ; }
			nft add rule inet balancer out masquerade
		`),
	)
	if err != nil {
		t.Fatal(err)
	}
	return &balancer{ns}
}

// served is an address of a cluster's load balancers: that of this number. Connections go to the node of the same number.
type served struct {
	by     *cluster
	number int
}

// serve makes the balancer serve a Service at these addresses, and at no others.
func (b *balancer) serve(s *service, all ...served) {
	s.Helper()
	commands := "nft flush chain inet balancer in\n"
	for _, a := range all {
		port, c := s.nodePort(a.by), a.by.number
		commands += fmt.Sprintf("nft add rule inet balancer in ip daddr %s tcp dport 80 dnat ip to %s:%d\n", balancer4(c, a.number), node4(c, a.number), port)
		commands += fmt.Sprintf("nft add rule inet balancer in ip6 daddr %s tcp dport 80 dnat ip6 to [%s]:%d\n", balancer6(c, a.number), node6(c, a.number), port)
	}
	if err := b.ns.run(commands); err != nil {
		s.Fatal(err)
	}
}

// ingresses sets the status of a Service's load balancer, as its controller would.
func (s *service) ingresses(c *cluster, all ...corev1.LoadBalancerIngress) {
	s.Helper()
	var svc corev1.Service
	if err := c.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, &svc); err != nil {
		s.Fatal(err)
	}
	svc.Status.LoadBalancer.Ingress = all
	if err := c.Client.Status().Update(s.Context(), &svc); err != nil {
		s.Fatal(err)
	}
}

// at returns the ingresses of a load balancer's address.
func (a served) at() []corev1.LoadBalancerIngress {
	return []corev1.LoadBalancerIngress{{IP: balancer4(a.by.number, a.number).String()}, {IP: balancer6(a.by.number, a.number).String()}}
}

// separated makes the router drop everything between the nodes of two clusters, so that only load balancers lead from one to the other. The
// returned function fails the test if there was anything.
func (w *world) separated(t *testing.T, a, b *cluster) (none func()) {
	t.Helper()
	commands := "nft add table inet separated\nnft add chain inet separated pass { type filter hook forward priority 0 ; }\n"
	for _, way := range [][2]*cluster{{a, b}, {b, a}} {
		commands += fmt.Sprintf("nft add rule inet separated pass iifname node-%d-* oifname node-%d-* counter drop\n", way[0].number, way[1].number)
	}
	if err := w.network.router.run(commands); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.network.router.run("nft delete table inet separated") })
	return func() {
		t.Helper()
		if counted := w.network.counted(t, "separated"); slices.Max(counted) > 0 {
			t.Errorf("packets went from cluster to cluster past the load balancers: %v", counted)
		}
		conn, err := b.nodes[0].dial("udp", netip.MustParseAddrPort(node4(a.number, 1)+":9"), netip.MustParseAddr(node4(b.number, 1)))
		if err == nil {
			_, err = conn.Write([]byte("one that is counted"))
			_ = conn.Close()
		}
		if err != nil || slices.Max(w.network.counted(t, "separated")) != 1 {
			t.Errorf("such a packet isn't counted: %v", err)
		}
	}
}

// unanswered returns what opens the same connections, and wants them not to be answered.
func unanswered(connections []func(int) bool) (all []func(int) bool) {
	for _, answered := range connections {
		all = append(all, func(number int) bool { return !answered(number) })
	}
	return all
}

// resolver is a DNS server that answers with the same addresses whatever is asked.
type resolver struct {
	addr    netip.Addr
	answers atomic.Pointer[[]netip.Addr]
}

// newResolver starts a resolver on the machine's loopback interface, until the end of the test.
func newResolver(t *testing.T) *resolver {
	t.Helper()
	r := &resolver{addr: netip.AddrFrom4([4]byte{127, 53, byte(os.Getpid() >> 8), byte(os.Getpid())})} // no two test processes have the same
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(r.addr, 53)))
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: r}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = conn.Close() })
	return r
}

// answer changes the answer to an address of a load balancer.
func (r *resolver) answer(a served) {
	r.answers.Store(&[]netip.Addr{balancer4(a.by.number, a.number), balancer6(a.by.number, a.number)})
}

// ServeDNS answers a question.
func (r *resolver) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	reply := new(dns.Msg).SetReply(q)
	if all := r.answers.Load(); all != nil {
		for _, a := range *all {
			h := dns.RR_Header{Name: q.Question[0].Name, Rrtype: q.Question[0].Qtype, Class: dns.ClassINET}
			switch {
			case h.Rrtype == dns.TypeA && a.Is4():
				reply.Answer = append(reply.Answer, &dns.A{Hdr: h, A: a.AsSlice()})
			case h.Rrtype == dns.TypeAAAA && a.Is6():
				reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: h, AAAA: a.AsSlice()})
			}
		}
	}
	_ = w.WriteMsg(reply)
}

// resolving makes a cluster's agent ask the resolver from its next start on, until the end of the test: it sees an /etc/resolv.conf of its own.
func (c *cluster) resolving(t *testing.T, r *resolver) {
	t.Helper()
	file := filepath.Join(c.dir, c.Name+"-resolv.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, "nameserver %s\n", r.addr), 0o600); err != nil {
		t.Fatal(err)
	}
	path, args := c.Agent.Path, c.Agent.Args
	t.Cleanup(func() { c.Agent.Path, c.Agent.Args = path, args })
	c.Agent.Path = "unshare"
	c.Agent.Args = func() ([]string, error) {
		all, err := args()
		return append([]string{"--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, file, path}, all...), err
	}
}

// byBalancers tests two clusters of which only load balancers can be reached. They use these by ClusterSetIP, by an own name, and by the
// name in svc.global, and follow them when their addresses change, or the answer to their names. Rules D84, D85, D88, D90 and D92.
func (a *apart) byBalancers(t *testing.T) {
	w, jingan, xicheng := a.w, a.cluster, a.w.cluster("xicheng")
	s := w.service(t, export{spec: "type: LoadBalancer, selector: {app: web}"}, "jingan", "xicheng")
	far := pods{a.pod(s, jingan.nodes[0], 1), a.pod(s, jingan.nodes[1], 2)}
	near := pods{a.pod(s, xicheng.nodes[0], 1), a.pod(s, xicheng.nodes[1], 2)}
	s.publish()
	direct, b := w.separated(t, jingan, xicheng), w.balancer(t)
	first, second, other := served{jingan, 1}, served{jingan, 2}, served{xicheng, 1}
	b.serve(s, first, other)
	s.ingresses(jingan, first.at()...)
	s.ingresses(xicheng, other.at()...)
	s.extend("xicheng")
	own := s.own("xicheng")
	s.extending("xicheng", balancer4(edgeNumber, 1))
	s.answered("xicheng", near...)
	s.answeredBy(own, near...)

	// Each reaches the other's pods while it has none that is ready, and with none anywhere nothing is answered.
	far.ready(false)
	s.publish()
	s.answered("jingan", near...)
	everywhere := way{from: slices.Concat(jingan.nodes, xicheng.nodes), network: "tcp", port: 80}
	connections := s.use(unanswered(s.connections(everywhere, near...))...)
	near.ready(false)
	began := time.Now()
	s.publish()
	took := connections.last(began)
	t.Logf("nothing was answered any more after %s", took)
	if atLength() && took > 2*time.Second {
		t.Errorf("it took %s until nothing was answered any more, want 2 s at most", took)
	}
	s.answered("jingan")
	s.answered("xicheng")
	far.ready(true)
	s.publish()
	s.answered("xicheng", far...)
	s.answeredBy(own, far...)
	s.answeredAt(xicheng, first, far...)

	// The load balancer gets another address, and the old one is no longer served.
	connections = s.use(s.connections(way{from: xicheng.nodes, network: "tcp", port: 80}, far...)...)
	began = time.Now()
	b.serve(s, second, other)
	s.ingresses(jingan, second.at()...)
	t.Logf("connections had followed the address of the load balancer after %s", connections.last(began))
	s.extending("xicheng", balancer4(edgeNumber, 2))
	s.answeredBy(own, far...)
	s.answeredAt(xicheng, second, far...)

	// It has a name, whose answer changes.
	a.resolver.answer(first)
	b.serve(s, first, other)
	s.ingresses(jingan, corev1.LoadBalancerIngress{Hostname: "web.balancers.example"})
	s.extending("xicheng", balancer4(edgeNumber, 1))
	s.answered("xicheng", far...)
	a.resolver.answer(second)
	b.serve(s, second, other)
	s.extending("xicheng", balancer4(edgeNumber, 2))
	s.answered("xicheng", far...)
	s.answeredBy(own, far...)
	direct()
}

// answeredAt fails the test unless the name of the service in svc.global, in a cluster, has the address of another one's load balancer, where
// these pods answer on the service's own port.
func (s *service) answeredAt(c *cluster, a served, want ...*pod) {
	s.Helper()
	s.asks(c)
	kube.Eventually(s, func() error {
		reply, err := c.DNS.Ask(s.Context(), "web."+s.namespace+".svc.global.", dns.TypeA)
		if err != nil {
			return err
		}
		at := balancer4(a.by.number, a.number)
		if len(reply.Answer) != 1 || !reply.Answer[0].(*dns.A).A.Equal(at.AsSlice()) {
			return fmt.Errorf("A is %v, want %s", reply.Answer, at)
		}
		return s.answeredIn(c, 80, want, at)
	})
}
