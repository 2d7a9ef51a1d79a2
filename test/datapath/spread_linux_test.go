package datapath

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/clusterset/clusterset/test/kube"
)

// everywhere makes all endpoints of a service one tier.
var everywhere = export{annotations: "clusterset.dev/prefer: none"}

// Endpoints of one tier share the connections over TCP and UDP and over both families, whichever cluster they are in.
func TestSpread(t *testing.T) {
	s := set(t).service(t, everywhere, "xicheng", "chaoyang", "minhang")
	xicheng, chaoyang, minhang := s.pods("xicheng", 2), s.pods("chaoyang", 2), s.pods("minhang", 1)
	s.publish()
	for _, c := range s.w.clusters {
		s.answered(c.Name, slices.Concat(xicheng, chaoyang, minhang)...)
		s.answeredBy(way{from: c.nodes, network: "udp", port: 80}, slices.Concat(xicheng, chaoyang, minhang)...)
	}
	// Endpoints become not ready, terminate, disappear and appear.
	xicheng[0].notReady, chaoyang[0].terminating = true, true
	s.remove(minhang...)
	more := s.pods("minhang", 1)
	s.publish()
	for _, c := range s.w.clusters {
		s.answered(c.Name, xicheng[1], chaoyang[1], more[0])
	}
	s.remove(s.all...)
	s.publish()
	for _, c := range s.w.clusters {
		s.answered(c.Name)
	}
}

// A client stays with the endpoint that answered it first until that endpoint is gone.
func TestSessionAffinity(t *testing.T) {
	s := set(t).service(t, everywhere, "xicheng", "minhang")
	all := append(s.pods("xicheng", 2), s.pods("minhang", 2)...)
	s.publish()
	// Affinity begins once every node knows all endpoints: the clients of a node that knew two of them would stay with those.
	for _, c := range s.w.clusters {
		s.answered(c.Name, all...)
	}
	e := everywhere
	e.spec = "sessionAffinity: ClientIP"
	s.export(e, "xicheng")
	s.export(e, "minhang")
	sticky := func(want ...*pod) {
		t.Helper()
		for _, c := range s.w.clusters {
			kube.Eventually(t, func() error { return s.sticks(c, want) })
		}
	}
	sticky(all...)
	all[0].notReady, all[2].notReady = true, true
	s.publish()
	sticky(all[1], all[3])
}

// sticks returns nil if each client of the cluster is always answered by the same pod, and each of the pods answers some client.
func (s *service) sticks(c *cluster, want pods) error {
	vips, err := s.vips(c)
	if err != nil {
		return err
	}
	for _, n := range c.nodes {
		for _, vip := range vips {
			var who []string
			for i := range 80 {
				got, err := n.ask("tcp", netip.AddrPortFrom(vip, 80), n.client(vip.Is6(), 100+i), 3)
				if err != nil {
					return err
				}
				if len(got) != 1 {
					return fmt.Errorf("%s (%s): one client was answered by %v", n.name, n.mode, got)
				}
				for name := range got {
					who = append(who, name)
				}
			}
			slices.Sort(who)
			if who = slices.Compact(who); !slices.Equal(who, want.names(vip.Is6())) {
				return fmt.Errorf("%s (%s): all clients were answered by %v, want %v", n.name, n.mode, who, want.names(vip.Is6()))
			}
		}
	}
	return nil
}

// A UDP flow moves when its endpoint is gone, although it never pauses long enough for its conntrack entry to expire.
func TestUDPFlowMovesOn(t *testing.T) {
	s := set(t).service(t, everywhere, "xicheng", "minhang")
	all := append(s.pods("xicheng", 2), s.pods("minhang", 1)...)
	s.publish()
	for _, n := range s.w.cluster("xicheng").nodes {
		s.answeredBy(way{from: []*node{n}, network: "udp4", port: 80}, all...)
		vips, err := s.vips(n.cluster)
		if err != nil {
			t.Fatal(err)
		}
		flow, err := n.dial("udp4", netip.AddrPortFrom(vips[0], 80), n.client(vips[0].Is6(), 252))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flow.Close() })
		first, err := whoAnswers(flow)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := whoAnswers(flow); again != first {
			t.Errorf("%s (%s): one flow was answered by %s and by %s, %v", n.name, n.mode, first, again, err)
		}
		gone := all[slices.IndexFunc(all, func(p *pod) bool { return p.name == first })]
		gone.notReady = true
		s.publish()
		kube.Eventually(t, func() error {
			who, err := whoAnswers(flow)
			if err == nil && who == first {
				err = fmt.Errorf("%s (%s): the flow is still answered by %s", n.name, n.mode, who)
			}
			return err
		})
		gone.notReady = false
		s.publish()
	}
}
