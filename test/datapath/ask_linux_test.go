package datapath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/kube"
)

// way is how connections are made: from which nodes, over "tcp" or "udp", to which port of the ClusterSetIPs.
type way struct {
	from    []*node
	network string
	port    uint16
}

// answered waits until connections from every node of a cluster, over both families, are answered by each of the pods that has
// an address of the family, and by nobody else. Where there is none they must be refused.
func (s *service) answered(cluster string, want ...*pod) {
	s.Helper()
	s.answeredBy(way{s.w.cluster(cluster).nodes, "tcp", 80}, want...)
}

func (s *service) answeredBy(w way, want ...*pod) {
	s.Helper()
	kube.Eventually(s, soon, func() error { return s.isAnswered(w, want) })
}

// isAnswered looks once.
func (s *service) isAnswered(w way, want pods) error {
	for _, n := range w.from {
		vips, err := s.vips(n.cluster)
		if err != nil {
			return err
		}
		for _, vip := range vips {
			names := want.names(vip.Is6())
			// So many that, where all have the same share, one is missed once in ten thousand million times.
			got, err := n.ask(w.network, netip.AddrPortFrom(vip, w.port), n.client(vip.Is6(), 250), 12+25*len(names))
			if err != nil {
				return err
			}
			if len(names) == 0 {
				names = []string{refused}
			}
			if who := slices.Sorted(maps.Keys(got)); !slices.Equal(who, names) {
				return fmt.Errorf("%s (%s): %s connections to %s were answered by %v, want %v", n.name, n.mode, w.network, vip, got, names)
			}
		}
	}
	return nil
}

// vips returns the ClusterSetIPs that a cluster has for the service, one of each family.
func (s *service) vips(c *cluster) ([]netip.Addr, error) {
	var i mcsv1beta1.ServiceImport
	if err := c.Client.Get(context.Background(), client.ObjectKey{Namespace: s.namespace, Name: "web"}, &i); err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, ip := range i.Spec.IPs {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, err
		}
		all = append(all, addr)
	}
	if len(all) != 2 {
		return nil, fmt.Errorf("%s: the ServiceImport has the addresses %v, want one of each family", c.Name, all)
	}
	return all, nil
}

// patience bounds each step of a connection. Where an answer is to come it comes in a millisecond.
const patience = 5 * time.Second

// What is said of connections that nobody answered.
const (
	refused = "(refused)"
	silence = "(silence)"
)

// ask connects to an address from one of the node's, a number of times, and counts who answered. It stops at the first
// connection that nobody answers.
func (n *node) ask(network string, to netip.AddrPort, source netip.Addr, times int) (map[string]int, error) {
	counts := map[string]int{}
	err := n.ns.do(func() error {
		for range times {
			who, err := askOnce(network, to, source)
			if err != nil {
				return err
			}
			counts[who]++
			if who == refused || who == silence {
				break
			}
		}
		return nil
	})
	return counts, err
}

// client is the i-th address of the node's pods. Pods that answer have the first ones.
func (n *node) client(v6 bool, i int) netip.Addr {
	if v6 {
		return pod6(n.cluster.number, n.number, i)
	}
	return pod4(n.cluster.number, n.number, i)
}

// askOnce returns who answered one connection.
func askOnce(network string, to netip.AddrPort, source netip.Addr) (string, error) {
	who, err := exchange(network, to, source)
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused, nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return silence, nil
	}
	return who, err
}

func exchange(network string, to netip.AddrPort, source netip.Addr) (string, error) {
	dialer := net.Dialer{Deadline: time.Now().Add(patience)}
	if network == "udp" {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	} else {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	conn, err := dialer.Dial(network, to.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(dialer.Deadline); err != nil {
		return "", err
	}
	if network == "udp" {
		if _, err := io.WriteString(conn, "who?"); err != nil {
			return "", err
		}
	}
	var answer [64]byte
	length, err := conn.Read(answer[:])
	return string(answer[:length]), err
}
