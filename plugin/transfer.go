package clusterset

import (
	"strings"

	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// Transfer implements transfer.Transferer. It sends the whole zone as queries would currently be answered. Zones within it are delegated.
// An IXFR gets only the SOA if the client is up to date, or else the whole zone.
func (c *ClusterSet) Transfer(name string, serial uint32) (<-chan []dns.RR, error) {
	z := c.zones.match(strings.ToLower(name))
	if z == nil || len(z.name) != len(name) {
		return nil, transfer.ErrNotAuthoritative
	}
	snapshot := c.index.Snapshot()
	if snapshot == nil {
		return nil, errNotReady
	}
	soa := &dns.SOA{}
	c.setSOA(soa, z, z.name, snapshot)
	if snapshot.Stale() {
		capTTL([]dns.RR{soa})
	}
	ch := make(chan []dns.RR)
	// The goroutine ends when everything is sent: the transfer plugin reads the channel to its end even if the client is gone.
	go func() {
		defer close(ch)
		ch <- []dns.RR{soa}
		if serial != 0 && int32(soa.Serial-serial) <= 0 { //nolint:gosec // serial number arithmetic (RFC 1982)
			return
		}
		c.transferZone(transferChan{ch, z, snapshot.Stale()}, z, snapshot)
		ch <- []dns.RR{dns.Copy(soa)}
	}()
	return ch, nil
}

func (c *ClusterSet) transferZone(ch transferChan, z *zone, snapshot *index.Snapshot) {
	ch.send([]dns.RR{&dns.NS{Hdr: c.header(z.name, dns.TypeNS), Ns: z.ns}})
	c.transferName(ch, snapshot, z.ns)
	ch.send([]dns.RR{versionRecord("dns-version." + suffix(z.name))})
	for _, inner := range z.cuts() { // this server answers for them too
		ch.put([]dns.RR{&dns.NS{Hdr: c.header(inner, dns.TypeNS), Ns: z.ns}})
	}
	for _, svc := range snapshot.Services() {
		set, name := svc.Set(z.dialect), string(svc.Key())+".svc."+suffix(z.origin)
		if set.Absent() {
			continue
		}
		c.transferName(ch, snapshot, name)
		for i := range set.Ports {
			c.transferName(ch, snapshot, "_"+set.Ports[i].Name+"._"+set.Ports[i].Protocol.String()+"."+name)
		}
		for i := range set.Hosts {
			c.transferName(ch, snapshot, set.Hosts[i].Key+"."+name)
		}
		for i := range set.Clusters {
			// A host may have the name of a dotted cluster. A query finds the host.
			if set.Host(set.Clusters[i].Key) == nil {
				c.transferName(ch, snapshot, set.Clusters[i].Key+"."+name)
			}
		}
	}
}

// transferName sends the records that queries for a name would get over TCP.
func (c *ClusterSet) transferName(ch transferChan, snapshot *index.Snapshot, name string) {
	var l index.Lookup
	c.lookup(&l, ch.zone, snapshot, name)
	q := &dns.Msg{Question: []dns.Question{{Name: name}}}
	for _, t := range []index.Type{index.TypeA, index.TypeAAAA, index.TypeSRV} {
		if m := c.replyRecords(q, ch.zone, &l, t, &packetBudget{max: dns.MaxMsgSize, steady: true}); m != nil {
			ch.send(m.Answer)
		}
	}
}

// transferChan receives the record sets of a zone transfer.
type transferChan struct {
	out   chan<- []dns.RR
	zone  *zone
	stale bool
}

// send sends a record set, unless its name is in a zone within this one, which answers queries for it. It also omits a name that is too
// long for a packet, or has a label that is: no query can ask for it, and it would abort the transfer.
func (ch transferChan) send(rrs []dns.RR) {
	if len(rrs) == 0 || ch.zone.hides(rrs[0].Header().Name) {
		return
	}
	if _, ok := dns.IsDomainName(rrs[0].Header().Name); ok {
		ch.put(rrs)
	}
}

func (ch transferChan) put(rrs []dns.RR) {
	if ch.stale {
		capTTL(rrs)
	}
	ch.out <- rrs
}
