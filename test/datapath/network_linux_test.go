package datapath

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// Addresses tell their owner. Cluster c (1, 2, …) has the Services 10.(100+c).0.0/16 and fd00:(100+c)::/112. Its node n is
// 10.200.c.n and fd00:200:c::n, and has the pods 10.(200+c).n.0/24 and fd00:(200+c):n::/64.

func services4(c int) string    { return fmt.Sprintf("10.%d.0.0/16", 100+c) }
func services6(c int) string    { return fmt.Sprintf("fd00:%d::/112", 100+c) }
func node4(c, n int) string     { return fmt.Sprintf("10.200.%d.%d", c, n) }
func node6(c, n int) string     { return fmt.Sprintf("fd00:200:%d::%d", c, n) }
func clusterPods4(c int) string { return fmt.Sprintf("10.%d.0.0/16", 200+c) }
func clusterPods6(c int) string { return fmt.Sprintf("fd00:%d::/32", 200+c) }
func pods4(c, n int) string     { return fmt.Sprintf("10.%d.%d.0/24", 200+c, n) }
func pods6(c, n int) string     { return fmt.Sprintf("fd00:%d:%d::/64", 200+c, n) }

func pod4(c, n, i int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("10.%d.%d.%d", 200+c, n, i))
}

func pod6(c, n, i int) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:%d:%d::%x", 200+c, n, i))
}

// network connects the nodes' namespaces through a router, with a veth pair to each node.
type network struct{ router *namespace }

func newNetwork() (*network, error) {
	router, err := newNamespace()
	if err != nil {
		return nil, err
	}
	return &network{router}, router.set(
		"net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1",
		"net/ipv6/conf/default/accept_dad=0", // addresses can be used at once
	)
}

// plug connects the namespace of a cluster's node. All addresses of the node's pod range are local to it, so any of them can be
// listened on. The cluster's first node also gets packets that other clusters send to the cluster's Services.
func (w *network) plug(ns *namespace, c, n int) error {
	if err := ns.set(
		"net/ipv4/ip_forward=1", "net/ipv6/conf/all/forwarding=1", "net/ipv6/conf/default/accept_dad=0",
		"net/ipv4/conf/all/rp_filter=0", "net/ipv4/conf/default/rp_filter=0",
		"net/ipv6/ip_nonlocal_bind=1", // otherwise IPv6 requires each address to be on an interface
	); err != nil {
		return err
	}
	port := port(c, n)
	routes := fmt.Sprintf(`
		ip link add %[1]s type veth peer name eth0 netns %[2]s
		ip addr add 10.200.0.1/32 dev %[1]s
		ip addr add fe80::1/64 dev %[1]s nodad
		ip link set %[1]s up
		ip route add %[3]s dev %[1]s
		ip route add %[4]s dev %[1]s
		ip route add %[5]s via %[3]s dev %[1]s onlink
		ip route add %[6]s via %[4]s dev %[1]s onlink
	`, port, ns.path(), node4(c, n), node6(c, n), pods4(c, n), pods6(c, n))
	if n == 1 {
		routes += fmt.Sprintf(`
			ip route add %[4]s via %[2]s dev %[1]s onlink
			ip route add %[5]s via %[3]s dev %[1]s onlink
		`, port, node4(c, n), node6(c, n), services4(c), services6(c))
	}
	if err := w.router.run(routes); err != nil {
		return err
	}
	return ns.run(fmt.Sprintf(`
		ip addr add %s/32 dev eth0
		ip addr add %s/128 dev eth0 nodad
		ip link set eth0 up
		ip route add 10.200.0.1 dev eth0
		ip route add default via 10.200.0.1
		ip route add default via fe80::1 dev eth0
		ip route add local %s dev lo
		ip route add local %s dev lo
	`, node4(c, n), node6(c, n), pods4(c, n), pods6(c, n)))
}

// filter makes the router apply rules, in a table of their own, to what it forwards, until the returned function is called or the test ends.
func (w *network) filter(t testing.TB, table, rules string) (remove func()) {
	t.Helper()
	commands := fmt.Sprintf("nft add table inet %[1]s\nnft add chain inet %[1]s pass { type filter hook forward priority 0 ; }\n", table)
	for rule := range strings.Lines(rules) {
		commands += "nft add rule inet " + table + " pass " + rule
	}
	if err := w.router.run(commands); err != nil {
		t.Fatal(err)
	}
	remove = sync.OnceFunc(func() {
		if err := w.router.run("nft delete table inet " + table); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(remove)
	return remove
}

// hidePods makes the router drop packets from a cluster's nodes to other clusters' pods until the end of the test, as in a network
// that routes only Services.
func (w *network) hidePods(t testing.TB, of *cluster) {
	t.Helper()
	rules := ""
	for c := 1; c <= len(specs); c++ {
		if c != of.number {
			rules += fmt.Sprintf("iifname node-%[1]d-* ip daddr %[2]s drop\niifname node-%[1]d-* ip6 daddr %[3]s drop\n",
				of.number, clusterPods4(c), clusterPods6(c))
		}
	}
	w.filter(t, "hidden", rules)
}

// port returns the name of the router's interface to a node.
func port(c, n int) string { return fmt.Sprintf("node-%d-%d", c, n) }
