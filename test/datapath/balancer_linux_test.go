package datapath

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

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

// byBalancers tests two clusters of which only load balancers can be reached. They use these by ClusterSetIP, by an own name, and by the
// name in svc.global, and follow them when their addresses change. Rules D84, D85, D88 and D90.
func (a *apart) byBalancers(t *testing.T) {
	w, jingan, xicheng := a.w, a.cluster, a.w.cluster("xicheng")
	s := w.service(t, export{spec: "type: LoadBalancer, selector: {app: web}"}, "jingan", "xicheng")
	far, near := a.pods(s, jingan), a.pods(s, xicheng)
	s.publish()
	w.network.filter(t, "separated", fmt.Sprintf("iifname node-%[1]d-* oifname node-%[2]d-* drop\niifname node-%[2]d-* oifname node-%[1]d-* drop",
		jingan.number, xicheng.number))
	b := w.balancer(t)
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
	near.ready(false)
	s.publish()
	s.answered("jingan")
	s.answered("xicheng")
	far.ready(true)
	s.publish()
	s.answered("xicheng", far...)
	s.answeredBy(own, far...)

	// The load balancer gets another address, and the old one is no longer served.
	b.serve(s, second, other)
	s.ingresses(jingan, second.at()...)
	s.extending("xicheng", balancer4(edgeNumber, 2))
	s.answered("xicheng", far...)
	s.answeredBy(own, far...)
	s.asks(xicheng)
	kube.Eventually(s, func() error {
		if err := s.named(xicheng, balancer4(edgeNumber, 2)); err != nil {
			return err
		}
		return s.answeredIn(xicheng, 80, far, balancer4(edgeNumber, 2))
	})
}
