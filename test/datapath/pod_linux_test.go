package datapath

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
)

// pod is an endpoint with an address of each family in its node's namespace. It answers everything that arrives there over TCP or
// UDP with its name.
type pod struct {
	name   string
	node   *node
	v4, v6 netip.Addr // the zero Addr if it has none of the family
	// notReady, terminating and zone go into its EndpointSlice. The zone is the node's unless a test changes it.
	notReady, terminating bool
	zone                  string

	sockets []io.Closer
}

// targetPort is the port on which every pod listens.
const targetPort = 8080

// newPod starts a pod on a node, until the end of the test.
func (n *node) newPod(t testing.TB) *pod {
	t.Helper()
	n.given++
	return n.startPod(t, n.cluster.number, n.given)
}

// startPod starts a pod with the i-th address that the node would have in a cluster.
func (n *node) startPod(t testing.TB, cluster, i int) *pod {
	t.Helper()
	p := &pod{name: fmt.Sprintf("%s/%d", n.name, i), node: n, zone: n.zone, v4: pod4(cluster, n.number, i), v6: pod6(cluster, n.number, i)}
	t.Cleanup(p.fail)
	if err := n.ns.do(func() error { return errors.Join(p.listen(p.v4), p.listen(p.v6)) }); err != nil {
		t.Fatalf("start pod %s: %v", p.name, err)
	}
	return p
}

func (p *pod) listen(addr netip.Addr) error {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, targetPort)))
	if err != nil {
		return err
	}
	p.sockets = append(p.sockets, tcp)
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, targetPort)))
	if err != nil {
		return err
	}
	p.sockets = append(p.sockets, udp)
	go func() {
		for {
			conn, err := tcp.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, p.name)
			_ = conn.Close()
		}
	}()
	go func() {
		var packet [16]byte
		for {
			_, from, err := udp.ReadFromUDPAddrPort(packet[:])
			if err != nil {
				return
			}
			_, _ = udp.WriteToUDPAddrPort([]byte(p.name), from)
		}
	}()
	return nil
}

// address returns the pod's address of a family.
func (p *pod) address(v6 bool) netip.Addr {
	if v6 {
		return p.v6
	}
	return p.v4
}

// fail closes the pod's sockets, so that connections to it are refused.
func (p *pod) fail() {
	for _, s := range p.sockets {
		_ = s.Close()
	}
}

// endpoint returns the pod's entry in an EndpointSlice.
func (p *pod) endpoint(addr netip.Addr) string {
	zone := ""
	if p.zone != "" {
		zone = ", zone: " + p.zone
	}
	return fmt.Sprintf("{addresses: [%q], nodeName: %s%s, conditions: {ready: %t, serving: %t, terminating: %t}}",
		addr, p.node.name, zone, !p.notReady && !p.terminating, !p.notReady, p.terminating)
}

type pods []*pod

// ready sets whether the pods are ready. It takes effect with publish.
func (ps pods) ready(is bool) {
	for _, p := range ps {
		p.notReady = !is
	}
}

// names returns the sorted names of the pods that have an address of the family.
func (ps pods) names(v6 bool) []string {
	names := []string{}
	for _, p := range ps {
		if p.address(v6).IsValid() {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return names
}
