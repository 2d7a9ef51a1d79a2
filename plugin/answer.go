package clusterset

import (
	"math/rand/v2"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// Every reply owns its records. They are built for it from the snapshot's addresses, in one array, and other plugins may change them.
// Records that outlive a query would have to be copied by every plugin that changes a TTL or a name, and would cost about a hundred
// bytes each for as long as the service exists. Building a hundred takes less time than packing ten.

// positive is a reply with records. It has the arrays that small replies need inline, so that such a reply is one allocation.
type positive struct {
	dns.Msg
	question [1]dns.Question
	records  [4]dns.RR
}

// several is a reply with room for more records: ten SRV records with an address each, and OPT.
type several struct {
	positive
	more [24]dns.RR
}

// negative is a reply without an answer: NXDOMAIN or NODATA with the zone's SOA (RFC 2308).
type negative struct {
	dns.Msg
	question [1]dns.Question
	ns       [1]dns.RR
	soa      dns.SOA
}

type recordA struct {
	dns.A
	ip [4]byte
}

type recordAAAA struct {
	dns.AAAA
	ip [16]byte
}

// oneA and oneAAAA are by far the most frequent replies. Each is one allocation.
type oneA struct {
	positive
	recordA
}

type oneAAAA struct {
	positive
	recordAAAA
}

// recordSRV is an SRV record with the first address of each family of its target.
type recordSRV struct {
	dns.SRV
	a    recordA
	aaaa recordAAAA
}

// reply builds the reply to r.
func (c *ClusterSet) reply(w dns.ResponseWriter, r *dns.Msg, z *zone, snapshot *index.Snapshot, l *index.Lookup) *dns.Msg {
	fits := newRoom(w, r)
	m := c.positiveReply(r, z, snapshot, l, &fits)
	if m == nil {
		return c.replyNegative(r, z, snapshot, l.Kind == index.NameError)
	}
	m.Truncated = fits.full()
	fits.cut(m)
	if l.Kind == index.ServiceName {
		c.tiers.count(l.Set)
	}
	return m
}

// positiveReply builds a reply with records, or returns nil if there are none.
func (c *ClusterSet) positiveReply(r *dns.Msg, z *zone, snapshot *index.Snapshot, l *index.Lookup, fits *room) *dns.Msg {
	switch qtype := r.Question[0].Qtype; {
	case l.Kind == index.NameError || l.Kind == index.Empty:
	case qtype == dns.TypeANY:
		return c.replyANY(r)
	case l.Kind == index.Apex:
		return c.replyApex(r, z, snapshot, fits)
	case l.Kind == index.Version:
		return c.replyVersion(r)
	case l.Kind == index.NameServer && (qtype == dns.TypeA || qtype == dns.TypeAAAA):
		return c.replyAddrs(r, c.self.load(), nil, fits)
	case qtype == dns.TypeA || qtype == dns.TypeAAAA:
		return c.replyAddrs(r, l.Addrs, l.Weights, fits)
	case qtype == dns.TypeSRV:
		return c.replySRV(r, l, fits)
	}
	return nil
}

// start fills in the header and question of a reply, as dns.Msg.SetReply does, without its allocation.
func start(m *dns.Msg, question *[1]dns.Question, r *dns.Msg) {
	m.Id, m.Response, m.Opcode, m.Authoritative = r.Id, true, r.Opcode, true
	m.RecursionDesired, m.CheckingDisabled = r.RecursionDesired, r.CheckingDisabled
	question[0] = r.Question[0]
	m.Question = question[:]
}

// newReply starts a reply with room for answers and extras. The extra section has room for one more record: CoreDNS appends the OPT
// record to it.
func newReply(r *dns.Msg, answers, extras int) *positive {
	if n := answers + extras; n >= len(positive{}.records) && n < len(several{}.more) {
		s := &several{}
		s.init(r, s.more[:], answers, extras)
		return &s.positive
	}
	p := &positive{}
	p.init(r, p.records[:], answers, extras)
	return p
}

// init starts a reply in an array, or in a new one if that is too small.
func (p *positive) init(r *dns.Msg, records []dns.RR, answers, extras int) {
	start(&p.Msg, &p.question, r)
	if answers+extras >= len(records) {
		records = make([]dns.RR, answers+extras+1)
	}
	p.Answer = records[:answers:answers]
	p.Extra = records[answers : answers+extras : answers+extras+1]
}

func (c *ClusterSet) header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: c.ttl}
}

// most returns how many of n records a reply may have.
func (c *ClusterSet) most(n int) int {
	if c.maxAnswers > 0 {
		return min(n, c.maxAnswers)
	}
	return n
}

// roll returns the random number that max_answers picks by, or 0 if it picks nothing.
func (c *ClusterSet) roll(n int, fits *room) uint64 {
	switch {
	case c.maxAnswers == 0 || n <= c.maxAnswers || fits.steady:
		return 0
	case c.random != nil:
		return c.random()
	}
	return rand.Uint64()
}

// sample picks from n addresses for a reply. Their weights begin at index from.
func (c *ClusterSet) sample(weights index.Weights, from, n int, fits *room) index.Sample {
	return weights.Sample(from, from+n, c.most(n), c.roll(n, fits))
}

// replyAddrs answers A or AAAA, or returns nil if there is no address of that family.
func (c *ClusterSet) replyAddrs(r *dns.Msg, addrs index.Addrs, weights index.Weights, fits *room) *dns.Msg {
	name := r.Question[0].Name
	a := r.Question[0].Qtype == dns.TypeA
	v4, v6 := addrs.Split()
	from, size := 0, sizeA
	if addrs = v4; !a {
		addrs, from, size = v6, len(v4), sizeAAAA
	}
	if len(addrs) == 0 {
		return nil
	}
	s := c.sample(weights, from, len(addrs), fits)
	switch n := fits.take(s.Len(), size); n {
	case 1:
		i := s.Next()
		return c.replyAddr(r, name, addrs[i:i+1])
	default:
		p := newReply(r, n, 0)
		if a {
			c.fillA(p.Answer, name, addrs, &s)
		} else {
			c.fillAAAA(p.Answer, name, addrs, &s)
		}
		return &p.Msg
	}
}

// replyAddr answers A or AAAA with a single address.
func (c *ClusterSet) replyAddr(r *dns.Msg, name string, addr index.Addrs) *dns.Msg {
	if r.Question[0].Qtype == dns.TypeA {
		one := &oneA{}
		one.positive.init(r, one.records[:], 1, 0)
		one.Answer[0] = c.setA(&one.recordA, name, addr)
		return &one.Msg
	}
	one := &oneAAAA{}
	one.positive.init(r, one.records[:], 1, 0)
	one.Answer[0] = c.setAAAA(&one.recordAAAA, name, addr)
	return &one.Msg
}

// fillA sets rrs to A records of the addresses picked.
func (c *ClusterSet) fillA(rrs []dns.RR, name string, addrs index.Addrs, s *index.Sample) {
	records := make([]recordA, len(rrs))
	for i := range records {
		at := s.Next()
		rrs[i] = c.setA(&records[i], name, addrs[at:at+1])
	}
}

// fillAAAA sets rrs to AAAA records of the addresses picked.
func (c *ClusterSet) fillAAAA(rrs []dns.RR, name string, addrs index.Addrs, s *index.Sample) {
	records := make([]recordAAAA, len(rrs))
	for i := range records {
		at := s.Next()
		rrs[i] = c.setAAAA(&records[i], name, addrs[at:at+1])
	}
}

// extras are the addresses of one name that a reply has room for.
type extras struct {
	v4, v6 index.Addrs
	s4, s6 index.Sample
	n4, n6 int
}

// takeExtras picks a service's addresses for an additional section or a transfer. It sets e instead of returning it, to keep the
// goroutine's stack from growing.
func (c *ClusterSet) takeExtras(e *extras, addrs index.Addrs, weights index.Weights, fits *room) {
	e.v4, e.v6 = addrs.Split()
	e.s4, e.s6 = c.sample(weights, 0, len(e.v4), fits), c.sample(weights, len(e.v4), len(e.v6), fits)
	e.n4, e.n6 = fits.take(e.s4.Len(), sizeA), fits.take(e.s6.Len(), sizeAAAA)
}

func (e *extras) len() int { return e.n4 + e.n6 }

// fillExtras sets rrs, which has e.len() elements, to the records.
func (c *ClusterSet) fillExtras(rrs []dns.RR, name string, e *extras) {
	c.fillA(rrs[:e.n4], name, e.v4, &e.s4)
	c.fillAAAA(rrs[e.n4:], name, e.v6, &e.s6)
}

func (c *ClusterSet) setA(rec *recordA, name string, addr index.Addrs) dns.RR {
	rec.Hdr = c.header(name, dns.TypeA)
	rec.ip = addr[0].As4()
	rec.A.A = rec.ip[:]
	return &rec.A
}

func (c *ClusterSet) setAAAA(rec *recordAAAA, name string, addr index.Addrs) dns.RR {
	rec.Hdr = c.header(name, dns.TypeAAAA)
	rec.ip = addr[0].As16()
	rec.AAAA.AAAA = rec.ip[:]
	return &rec.AAAA
}

// replyNegative answers NXDOMAIN or NODATA.
func (c *ClusterSet) replyNegative(r *dns.Msg, z *zone, snapshot *index.Snapshot, nameError bool) *dns.Msg {
	n := &negative{}
	start(&n.Msg, &n.question, r)
	if nameError {
		n.Rcode = dns.RcodeNameError
	}
	c.setSOA(&n.soa, z, r.Question[0].Name, snapshot)
	n.ns[0] = &n.soa
	n.Ns = n.ns[:]
	return &n.Msg
}

// setSOA sets soa to the zone's SOA. Its owner is a suffix of qname, so that it echoes the question's case.
func (c *ClusterSet) setSOA(soa *dns.SOA, z *zone, qname string, snapshot *index.Snapshot) {
	*soa = dns.SOA{
		Hdr: c.header(qname[len(qname)-len(z.name):], dns.TypeSOA),
		Ns:  z.ns, Mbox: z.mbox,
		Serial: snapshot.Serial(), Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: c.ttl,
	}
}
