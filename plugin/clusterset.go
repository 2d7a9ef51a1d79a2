// Package clusterset is a CoreDNS plugin that resolves services that run in more than one Kubernetes cluster:
// clusterset.local of the Multi-Cluster Services API (KEP-1645) and svc.global of FabDNS's GlobalServices.
//
// It is the last stage of the data plane. A source (source.go) reads objects from a Kubernetes API server or a
// directory and puts them into an index.Index. The index ranks endpoints by topology and publishes immutable snapshots.
// ServeDNS reads the current snapshot and writes one reply (answer.go).
package clusterset

import (
	"context"
	"strings"

	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	clog "github.com/coredns/coredns/plugin/pkg/log"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

const pluginName = "clusterset"

var log = clog.NewWithPlugin(pluginName)

// ClusterSet is the plugin's handler in one server block.
type ClusterSet struct {
	Next plugin.Handler
	Fall fall.F

	zones      zones
	ttl        uint32
	maxAnswers int           // 0 for no limit
	random     func() uint64 // for max_answers; nil for math/rand, set in tests
	index      *index.Index
	source     *source
	self       selfAddrs
	tiers      tierCounters
}

// Name implements plugin.Handler.
func (*ClusterSet) Name() string { return pluginName }

// ServeDNS implements plugin.Handler. It takes no lock but for a name with a zone, and makes at most three allocations for an existing name in
// lower case. CoreDNS serves every packet in a new goroutine with a small stack. Growing that stack costs more than
// everything done here, so calls are few and their frames small.
func (c *ClusterSet) ServeDNS(ctx context.Context, w dns.ResponseWriter, r *dns.Msg) (int, error) {
	if len(r.Question) == 0 {
		return plugin.NextOrFailure(pluginName, c.Next, ctx, w, r)
	}
	q := &r.Question[0]
	name := strings.ToLower(q.Name)
	z := c.zones.match(name)
	if z == nil || q.Qclass != dns.ClassINET {
		return plugin.NextOrFailure(pluginName, c.Next, ctx, w, r)
	}
	if c.Next != nil && z.passesOn(name) {
		return plugin.NextOrFailure(pluginName, c.Next, ctx, w, r)
	}
	snapshot := c.index.Snapshot()
	if snapshot == nil {
		return notReady(w, r)
	}
	if q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR {
		return dns.RcodeRefused, nil // a configured transfer plugin comes before this one in the chain
	}
	var l index.Lookup
	c.lookup(&l, z, snapshot, name)
	if l.Kind == index.NameError && len(z.nested) > 0 && z.leadsTo(name, serverAddr(ctx)) {
		l.Kind = index.Empty
	}
	if l.Kind == index.NameError && c.Fall.Through(name) {
		return plugin.NextOrFailure(pluginName, c.Next, ctx, w, r)
	}
	if r.Opcode != dns.OpcodeQuery {
		return dns.RcodeNotImplemented, nil // such as NOTIFY: these zones have no primary that could send one (RFC 1996)
	}
	if l.Kind == index.ZoneName {
		snapshot.Zonal(&l)
	}
	m := c.reply(w, r, z, snapshot, &l)
	_ = w.WriteMsg(m) // if it can't be sent, the client asks again
	return dns.RcodeSuccess, nil
}

// lookup finds what name stands for and sets the fields of l, which must be empty. name is in lower case and in the zone.
func (c *ClusterSet) lookup(l *index.Lookup, z *zone, snapshot *index.Snapshot, name string) {
	snapshot.Lookup(l, z.kind(), z.below(name))
	if l.Kind == index.NameServer {
		l.Addrs = c.self.load()
	}
}
