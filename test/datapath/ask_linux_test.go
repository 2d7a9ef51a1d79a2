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
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/kube"
)

// way describes how connections are made: from which nodes, over "tcp" or "udp" ("tcp4", … for one family alone), to which port of
// the ClusterSetIPs, or of the ClusterIPs of the cluster's own Service.
type way struct {
	from    []*node
	network string
	port    uint16
	own     bool
}

// answered waits until connections from every node of a cluster, over both families, are answered by each of the pods that has an
// address of the family, and by no other pod. If no pod has one, they must be refused.
func (s *service) answered(cluster string, want ...*pod) {
	s.Helper()
	s.answeredBy(way{from: s.w.cluster(cluster).nodes, network: "tcp", port: 80}, want...)
}

func (s *service) answeredBy(w way, want ...*pod) {
	s.Helper()
	kube.Eventually(s, func() error { return s.isAnswered(w, want) })
}

// isAnswered checks once.
func (s *service) isAnswered(w way, want pods) error {
	for _, n := range w.from {
		vips, err := s.addresses(n.cluster, w.own)
		if err != nil {
			return err
		}
		for _, vip := range vips {
			if strings.HasSuffix(w.network, "4") && vip.Is6() || strings.HasSuffix(w.network, "6") && vip.Is4() {
				continue
			}
			names := want.names(vip.Is6())
			// If all pods have the same share, so many connections miss a given pod once in ten thousand million times.
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

// only makes connections from every node of a cluster, one after another, until the returned function is called. That function
// fails the test if a connection was not answered, was answered by a pod that isn't allowed, or if there was none.
func (s *service) only(cluster string, allowed ...*pod) (end func()) {
	s.Helper()
	return s.onlyBy(way{from: s.w.cluster(cluster).nodes, network: "tcp", port: 80}, allowed...)
}

func (s *service) onlyBy(w way, allowed ...*pod) (end func()) {
	s.Helper()
	nodes := w.from
	vips, err := s.addresses(nodes[0].cluster, w.own)
	if err != nil {
		s.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(done)
		connections := 0
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				if connections == 0 {
					done <- errors.New("no connection was made")
				}
				s.Logf("%d connections were answered as wanted", connections)
				return
			case <-s.Context().Done(): // the test has already failed elsewhere
				return
			case <-pace.C:
			}
			for _, n := range nodes {
				for _, vip := range vips {
					names := pods(allowed).names(vip.Is6())
					got, err := n.ask(w.network, netip.AddrPortFrom(vip, w.port), n.client(vip.Is6(), 251), 1)
					for who := range got {
						if !slices.Contains(names, who) {
							err = fmt.Errorf("%s (%s): connection %d to %s was answered by %s, want one of %v", n.name, n.mode, connections, vip, who, names)
						}
					}
					if err != nil {
						done <- err
						return
					}
					connections++
				}
			}
		}
	}()
	return func() {
		s.Helper()
		close(stop)
		if err := <-done; err != nil {
			s.Error(err)
		}
	}
}

// vips returns the ClusterSetIPs that a cluster has for the service, one of each family.
func (s *service) vips(c *cluster) ([]netip.Addr, error) { return s.addresses(c, false) }

// addresses is vips, or the ClusterIPs of the cluster's own Service.
func (s *service) addresses(c *cluster, own bool) ([]netip.Addr, error) {
	var i mcsv1beta1.ServiceImport
	var svc corev1.Service
	key, ips := client.ObjectKey{Namespace: s.namespace, Name: "web"}, &i.Spec.IPs
	var err error
	if own {
		err, ips = c.Client.Get(context.Background(), key, &svc), &svc.Spec.ClusterIPs
	} else {
		err = c.Client.Get(context.Background(), key, &i)
	}
	if err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, ip := range *ips {
		addr, err := netip.ParseAddr(ip)
		if err != nil {
			return nil, err
		}
		all = append(all, addr)
	}
	if len(all) != 2 {
		return nil, fmt.Errorf("%s: the service has the addresses %v, want one of each family", c.Name, all)
	}
	return all, nil
}

// patience bounds each step of a connection. An answer normally comes within a millisecond.
const patience = 5 * time.Second

// Results of connections that were not answered.
const (
	refused = "(refused)"
	silence = "(silence)"
)

// ask connects to an address the given number of times, from one of the node's addresses, and counts the answers by pod. It stops
// at the first connection without an answer.
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

// client returns the i-th address of the node's pod range, as the source of connections. newPod takes its addresses from the start
// of the range.
func (n *node) client(v6 bool, i int) netip.Addr {
	if v6 {
		return pod6(n.cluster.number, n.number, i)
	}
	return pod4(n.cluster.number, n.number, i)
}

// askOnce makes one connection and returns the name of the pod that answered, or refused or silence.
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
	conn, err := dial(network, to, source)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	return whoAnswers(conn)
}

// dial connects from the node's namespace.
func (n *node) dial(network string, to netip.AddrPort, source netip.Addr) (conn net.Conn, err error) {
	err = n.ns.do(func() error {
		conn, err = dial(network, to, source)
		return err
	})
	return conn, err
}

func dial(network string, to netip.AddrPort, source netip.Addr) (net.Conn, error) {
	dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
	if strings.HasPrefix(network, "udp") {
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	return dialer.Dial(network, to.String())
}

// whoAnswers reads the name of the other end. Over UDP it has to send a packet first.
func whoAnswers(conn net.Conn) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, isUDP := conn.(*net.UDPConn); isUDP {
		if _, err := io.WriteString(conn, "who?"); err != nil {
			return "", err
		}
	}
	var answer [64]byte
	length, err := conn.Read(answer[:])
	return string(answer[:length]), err
}
