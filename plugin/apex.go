package clusterset

import (
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

const (
	// dnsVersion is the version of the multi-cluster DNS specification that dns-version.<zone> states. versionTTL is long
	// because the version changes with a release, not with an object.
	dnsVersion = "1.0.0"
	versionTTL = 28800

	// The SOA's timers, in seconds. Endpoints change all the time, so a secondary that NOTIFY doesn't reach refreshes every
	// minute. It answers for a day without its primary, longer than any rollout or API server outage should take.
	soaRefresh = 60
	soaRetry   = 15
	soaExpire  = 86400
)

// selfAddrs are the addresses at which clients reach this server, the glue of its NS record. They can change while the server
// runs: finding its Service may take several attempts.
type selfAddrs struct{ p atomic.Pointer[index.Addrs] }

func (s *selfAddrs) load() index.Addrs {
	if addrs := s.p.Load(); addrs != nil {
		return *addrs
	}
	return nil
}

// store stores addresses, and reports whether it has replaced others.
func (s *selfAddrs) store(addrs []netip.Addr) (changed bool) {
	sorted := index.SortAddrs(addrs)
	old := s.p.Swap(&sorted)
	return old != nil && !slices.Equal(*old, sorted)
}

// storeFirst stores addresses unless some are stored already. The source starts with the first server block, and may have found
// better addresses before the other blocks start.
func (s *selfAddrs) storeFirst(addrs []netip.Addr) {
	sorted := index.SortAddrs(addrs)
	s.p.CompareAndSwap(nil, &sorted)
}

// replyOther answers types that only some names have, each with one record, or returns nil.
func (c *ClusterSet) replyOther(r *dns.Msg, z *zone, snapshot *index.Snapshot, kind index.NameKind) *dns.Msg {
	name := r.Question[0].Name
	var rr dns.RR
	switch qtype := r.Question[0].Qtype; {
	case qtype == dns.TypeANY: // HINFO is small and names the reason (RFC 8482 section 4.2)
		rr = &dns.HINFO{Hdr: c.header(name, dns.TypeHINFO), Cpu: "RFC8482"}
	case qtype == dns.TypeSOA && kind == index.Apex:
		soa := &dns.SOA{}
		c.setSOA(soa, z, name, snapshot)
		rr = soa
	case qtype == dns.TypeTXT && kind == index.Version:
		rr = versionRecord(name)
	default:
		return nil
	}
	p, _ := newReply(r, 1, 0)
	p.Answer[0] = rr
	return &p.Msg
}

// versionRecord is the TXT at dns-version (Kubernetes DNS specification 2.2, which multi-cluster DNS inherits).
func versionRecord(name string) *dns.TXT {
	return &dns.TXT{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: versionTTL}, Txt: []string{dnsVersion}}
}

// notReady answers SERVFAIL before the first sync: clients and caches would believe an NXDOMAIN. Clients that use EDNS get the
// reason (RFC 8914 section 4.15).
func notReady(w dns.ResponseWriter, r *dns.Msg) (int, error) {
	unsyncedAnswers.Inc()
	m := new(dns.Msg)
	m.SetRcode(r, dns.RcodeServerFailure)
	if opt := r.IsEdns0(); opt != nil {
		explain(m, opt, dns.ExtendedErrorCodeNotReady, "clusterset: waiting for the first sync")
	}
	_ = w.WriteMsg(m)
	return dns.RcodeSuccess, nil
}
