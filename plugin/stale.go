package clusterset

import "github.com/miekg/dns"

// staleTTL is the longest TTL of an answer from an earlier state, in seconds. RFC 8767 section 4 recommends it for stale data.
const staleTTL = 30

// markStale marks a reply from an earlier state as stale: it caps all TTLs at staleTTL, and adds an extended error for
// clients that use EDNS (RFC 8914 sections 4.4 and 4.20). It may change the records because they belong to the reply.
func markStale(m, r *dns.Msg) {
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		capTTL(section)
	}
	staleAnswers.Inc()
	opt := r.IsEdns0()
	if opt == nil {
		return
	}
	code := dns.ExtendedErrorCodeStaleAnswer
	if m.Rcode == dns.RcodeNameError {
		code = dns.ExtendedErrorCodeStaleNXDOMAINAnswer
	}
	explain(m, opt, code, "clusterset: last known state")
}

// explain adds an extended error (RFC 8914) to a reply to a query with opt.
func explain(m *dns.Msg, opt *dns.OPT, code uint16, why string) {
	m.SetEdns0(opt.UDPSize(), opt.Do())
	reply := m.IsEdns0()
	reply.Option = append(reply.Option, &dns.EDNS0_EDE{InfoCode: code, ExtraText: why})
}

func capTTL(rrs []dns.RR) {
	for _, rr := range rrs {
		header := rr.Header()
		header.Ttl = min(header.Ttl, staleTTL)
		if soa, ok := rr.(*dns.SOA); ok {
			soa.Minttl = min(soa.Minttl, staleTTL)
		}
	}
}
