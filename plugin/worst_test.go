package clusterset

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coredns/coredns/request"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/plugin/express"
)

// largest returns the largest service that is accepted: as many endpoints as a GlobalService may have and as many ports as a service
// may have, in clusters with different port numbers. Its name is as short as possible, so that most records fit.
func largest(headless bool) []index.Object {
	g := &index.GlobalService{Service: "a.b", Headless: headless}
	for i := range api.MaxPorts {
		g.Ports = append(g.Ports, index.Port{Name: fmt.Sprintf("p%d", i), Number: uint16(1 + i)}) //nolint:gosec // few
	}
	for cluster := range 4 {
		group := index.Group{Cluster: fmt.Sprintf("c%d", cluster)}
		for _, p := range g.Ports {
			group.Ports = append(group.Ports, index.Port{Name: p.Name, Number: p.Number + uint16(cluster%2)}) //nolint:gosec // few
		}
		for i := range api.MaxGlobalServiceEndpoints / 4 {
			addr := netip.AddrFrom4([4]byte{10, byte(cluster), byte(i / 256), byte(i)})
			if i%4 == 3 {
				addr = netip.AddrFrom16([16]byte{0xfd, byte(cluster), 14: byte(i / 256), 15: byte(i)})
			}
			group.Endpoints = append(group.Endpoints, index.Endpoint{Addr: addr, Hostname: fmt.Sprintf("h%d", i), Ready: true})
		}
		g.Groups = append(g.Groups, group)
	}
	return []index.Object{g}
}

// worst calls run for the queries with the largest answers.
func worst(run func(name string, c *ClusterSet, remote net.Addr, q *dns.Msg)) {
	types := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeANY, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeMX}
	for _, kind := range []string{"headless", "clusterip"} {
		c := newFuzzPlugin("clusterset.local.", "global.")
		c.index.Put(largest(kind == "headless")...)
		for _, labels := range []string{"", "_p0._tcp.", "h0.c0.", "c0."} {
			for _, qtype := range types {
				for _, transport := range []struct {
					name   string
					remote net.Addr
					edns   uint16
				}{{"udp512", udpClient, 0}, {"udp1232", udpClient, 1232}, {"udp65535", udpClient, 65535}, {"tcp", tcpClient, 0}} {
					q := new(dns.Msg).SetQuestion(labels+"a.b.svc.global.", qtype)
					if transport.edns > 0 {
						q.SetEdns0(transport.edns, false)
					}
					run(fmt.Sprintf("%s/%s%s/%s", kind, labels, dns.TypeToString[qtype], transport.name), c, transport.remote, q)
				}
			}
		}
	}
}

// The cost of a query depends on the size of the answer that can be sent, not on the number of endpoints: of
// 409,600 SRV records only those are built that fit into 472 bytes.
func TestWorstQueryIsBounded(t *testing.T) {
	most := map[net.Addr]uint64{udpClient: 128 << 10, tcpClient: 512 << 10} // bytes of memory for a query
	worst(func(name string, c *ClusterSet, remote net.Addr, q *dns.Msg) {
		w := &discard{remote: remote}
		var before, after runtime.MemStats
		const times = 8
		runtime.ReadMemStats(&before)
		for range times {
			_, _ = c.ServeDNS(context.Background(), w, q)
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / times; bytes > most[remote] {
			t.Errorf("%s: %d bytes, want at most %d", name, bytes, most[remote])
		}
	})
}

// A reply that doesn't fit is marked as truncated. It has the same records as a full reply that is truncated afterwards. Rule A58 of
// docs/spec/answers.md.
func TestCutRepliesAreTruncated(t *testing.T) {
	worst(func(name string, c *ClusterSet, remote net.Addr, q *dns.Msg) {
		ask := func(most int) *dns.Msg {
			l, z := index.Lookup{}, c.zones.match("a.b.svc.global.")
			snapshot := c.index.Snapshot()
			snapshot.Lookup(&l, z.kind(), z.below(q.Question[0].Name))
			fits := packetBudget{w: &discard{remote: remote}, r: q, max: most, used: 17}
			m := c.positiveReply(q, z, snapshot, &l, &fits)
			if m == nil {
				m = new(dns.Msg)
			}
			m.Truncated = fits.full()
			return m
		}
		size := sizeOf(&discard{remote: remote}, q)
		all, cut := ask(1<<30), ask(0)
		if built := len(cut.Answer) + len(cut.Extra); built > size/sizeA+1 {
			t.Errorf("%s: %d records for %d bytes", name, built, size)
		}
		all.Truncate(size)
		truncated := cut.Truncated
		cut.Truncate(size)
		if all.String() != cut.String() {
			t.Errorf("%s: the reply is\n%.2000s\nwant\n%.2000s", name, cut, all)
		}
		if !truncated && strings.HasPrefix(name, "headless/A/udp512") {
			t.Errorf("%s: not marked as truncated", name)
		}
	})
}

// The extended error counts as a part of the reply. Rule A58 of docs/spec/answers.md.
func TestAStaleReplyIsNoLongerThanOthers(t *testing.T) {
	c := newFuzzPlugin("global.")
	c.index = index.New(index.Options{LongestZone: c.zones.longest()})
	c.index.Restore(largest(true), time.Unix(1, 0))
	for _, size := range []uint16{512, 1232, 4096, 65535} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
			q := new(dns.Msg).SetQuestion("a.b.svc.global.", qtype).SetEdns0(size, false)
			w := &discard{remote: udpClient}
			if _, err := c.ServeDNS(context.Background(), request.NewScrubWriter(q, w), q); err != nil {
				t.Fatal(err)
			}
			packed, err := w.msg.Pack()
			if err != nil || len(packed) > min(int(size), express.MaxUDP) || !w.msg.Truncated || len(w.msg.IsEdns0().Option) != 1 {
				t.Errorf("%s, EDNS %d: %d bytes, %v; %v", dns.TypeToString[qtype], size, len(packed), err, w.msg.IsEdns0())
			}
		}
	}
}
