package clusterset

import (
	"net/netip"
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

func (s *selfAddrs) store(addrs []netip.Addr) {
	sorted := index.SortAddrs(addrs)
	s.p.Store(&sorted)
}

// storeFirst stores addresses unless some are stored already. The source starts with the first server block, and may have found
// better addresses before the other blocks start.
func (s *selfAddrs) storeFirst(addrs []netip.Addr) {
	sorted := index.SortAddrs(addrs)
	s.p.CompareAndSwap(nil, &sorted)
}

// replyApex answers SOA and NS at a zone's apex, or returns nil.
func (c *ClusterSet) replyApex(r *dns.Msg, z *zone, snapshot *index.Snapshot, fits *room) *dns.Msg {
	name := r.Question[0].Name
	switch r.Question[0].Qtype {
	case dns.TypeSOA:
		p := newReply(r, 1, 0)
		soa := &dns.SOA{}
		c.setSOA(soa, z, name, snapshot)
		p.Answer[0] = soa
		return &p.Msg
	case dns.TypeNS:
		var extra extras
		c.takeExtras(&extra, c.self.load(), nil, fits)
		p := newReply(r, 1, extra.len())
		p.Answer[0] = &dns.NS{Hdr: c.header(name, dns.TypeNS), Ns: z.ns}
		c.fillExtras(p.Extra, z.ns, &extra)
		return &p.Msg
	default:
		return nil
	}
}

// replyVersion answers TXT at dns-version (Kubernetes DNS specification 2.2, which multi-cluster DNS inherits), or returns nil.
func (c *ClusterSet) replyVersion(r *dns.Msg) *dns.Msg {
	if r.Question[0].Qtype != dns.TypeTXT {
		return nil
	}
	p := newReply(r, 1, 0)
	p.Answer[0] = &dns.TXT{Hdr: versionHeader(r.Question[0].Name), Txt: []string{dnsVersion}}
	return &p.Msg
}

func versionHeader(name string) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: versionTTL}
}

// replyANY answers ANY at an existing name with one HINFO record (RFC 8482 section 4.2), which is small and names the reason.
func (c *ClusterSet) replyANY(r *dns.Msg) *dns.Msg {
	p := newReply(r, 1, 0)
	p.Answer[0] = &dns.HINFO{Hdr: c.header(r.Question[0].Name, dns.TypeHINFO), Cpu: "RFC8482"}
	return &p.Msg
}

// notReady answers SERVFAIL before the first sync: clients and caches would believe an NXDOMAIN. Clients that use EDNS get the
// reason (RFC 8914 section 4.15).
func notReady(w dns.ResponseWriter, r *dns.Msg) (int, error) {
	m := new(dns.Msg)
	m.SetRcode(r, dns.RcodeServerFailure)
	if opt := r.IsEdns0(); opt != nil {
		m.SetEdns0(opt.UDPSize(), opt.Do())
		reply := m.IsEdns0()
		reply.Option = append(reply.Option, &dns.EDNS0_EDE{
			InfoCode: dns.ExtendedErrorCodeNotReady, ExtraText: "clusterset: waiting for the first sync",
		})
	}
	_ = w.WriteMsg(m)
	return dns.RcodeSuccess, nil
}
