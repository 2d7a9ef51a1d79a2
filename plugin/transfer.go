package clusterset

import (
	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// Transfer implements transfer.Transferer. It sends the whole zone as queries would currently be answered. Zones within it are delegated.
// An IXFR gets only the SOA if the client is up to date, or else the whole zone.
func (c *ClusterSet) Transfer(name string, serial uint32) (<-chan []dns.RR, error) {
	z := c.zones.match(lower(name))
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
	ch.send(c.addrRecords(z.ns, c.self.load()))
	ch.send([]dns.RR{&dns.TXT{Hdr: versionHeader("dns-version." + suffix(z.name)), Txt: []string{dnsVersion}}})
	for _, inner := range z.cuts() { // this server answers for them too
		ch.put([]dns.RR{&dns.NS{Hdr: c.header(inner, dns.TypeNS), Ns: z.ns}})
	}
	for _, svc := range snapshot.Services() {
		if set := svc.Set(z.dialect); !set.Absent() {
			c.transferService(ch, z, snapshot, string(svc.Key())+".svc."+suffix(z.origin), set)
		}
	}
}

// transferService sends the records at and below a service's name.
func (c *ClusterSet) transferService(ch transferChan, z *zone, snapshot *index.Snapshot, name string, set *index.Set) {
	ch.send(c.addrRecords(name, set.Addrs))
	c.transferSRV(ch, z, snapshot, name)
	for i := range set.Ports {
		c.transferSRV(ch, z, snapshot, "_"+set.Ports[i].Name+"._"+set.Ports[i].Protocol.String()+"."+name)
	}
	for i := range set.Hosts {
		ch.send(c.addrRecords(set.Hosts[i].Key+"."+name, set.Hosts[i].Addrs))
	}
	if z.dialect == index.Global {
		for i := range set.Clusters {
			// A host may have the name of a dotted cluster. A query finds the host.
			if set.Host(set.Clusters[i].Key) == nil {
				ch.send(c.addrRecords(set.Clusters[i].Key+"."+name, set.Clusters[i].Addrs))
			}
		}
	}
}

// transferSRV sends the SRV records that a query for name would get over TCP.
func (c *ClusterSet) transferSRV(ch transferChan, z *zone, snapshot *index.Snapshot, name string) {
	var l index.Lookup
	z.lookup(&l, snapshot, name)
	q := &dns.Msg{Question: []dns.Question{{Name: name, Qtype: dns.TypeSRV, Qclass: dns.ClassINET}}}
	if m := c.replySRV(q, &l, &room{max: dns.MaxMsgSize, steady: true}); m != nil {
		ch.send(m.Answer)
	}
}

// addrRecords returns the A and AAAA records of a name that queries get over TCP.
func (c *ClusterSet) addrRecords(name string, addrs index.Addrs) []dns.RR {
	v4, v6 := addrs.Split()
	fits4, fits6 := room{max: dns.MaxMsgSize}, room{max: dns.MaxMsgSize}
	v4, v6 = v4[:fits4.take(c.most(len(v4)), sizeA)], v6[:fits6.take(c.most(len(v6)), sizeAAAA)]
	rrs := make([]dns.RR, len(v4)+len(v6))
	all4, all6 := index.First(len(v4)), index.First(len(v6))
	c.fillA(rrs[:len(v4)], name, v4, &all4)
	c.fillAAAA(rrs[len(v4):], name, v6, &all6)
	return rrs
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
