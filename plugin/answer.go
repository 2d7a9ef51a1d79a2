package clusterset

import (
	"math/rand/v2"
	"strings"

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
	record [1]recordA
}

type oneAAAA struct {
	positive
	record [1]recordAAAA
}

// recordSRV is an SRV record, with as much room for addresses as most targets need.
type recordSRV struct {
	dns.SRV
	a    recordA
	aaaa recordAAAA
}

// arrays have the records of a reply.
type arrays struct {
	srv  []recordSRV
	a    []recordA // those for which srv has no room
	aaaa []recordAAAA
}

// reply builds the reply to r.
func (c *ClusterSet) reply(w dns.ResponseWriter, r *dns.Msg, z *zone, snapshot *index.Snapshot, l *index.Lookup) *dns.Msg {
	fits := newPacketBudget(w, r)
	m := c.positiveReply(r, z, snapshot, l, &fits)
	switch {
	case m == nil:
		m = c.replyNegative(r, z, snapshot, l.Kind == index.NameError)
	case l.Kind == index.ServiceName:
		c.tiers[l.Set.Count()].Inc()
	}
	m.Truncated = fits.full()
	if snapshot.Stale() {
		markStale(m, r)
	}
	fits.cut(m)
	return m
}

// positiveReply builds a reply with records, or returns nil if there are none.
func (c *ClusterSet) positiveReply(r *dns.Msg, z *zone, snapshot *index.Snapshot, l *index.Lookup, fits *packetBudget) *dns.Msg {
	t := index.TypeA
	switch qtype := r.Question[0].Qtype; {
	case l.Kind == index.NameError || l.Kind == index.Empty:
		return nil
	case qtype == dns.TypeA:
	case qtype == dns.TypeAAAA:
		t = index.TypeAAAA
	case qtype == dns.TypeSRV:
		t = index.TypeSRV
	case qtype == dns.TypeNS && l.Kind == index.Apex:
		t, l.Addrs = index.TypeNS, c.self.load()
	default:
		return c.replyOther(r, z, snapshot, l.Kind)
	}
	return c.replyRecords(r, z, l, t, fits)
}

// start fills in the header and question of a reply, as dns.Msg.SetReply does, without its allocation.
func start(m *dns.Msg, question *[1]dns.Question, r *dns.Msg) {
	m.Id, m.Response, m.Opcode, m.Authoritative = r.Id, true, r.Opcode, true
	m.RecursionDesired, m.CheckingDisabled = r.RecursionDesired, r.CheckingDisabled
	question[0] = r.Question[0]
	m.Question = question[:]
}

// newReply starts a reply with room for answers and extras, and returns the room. The extra section has room for one more record: CoreDNS
// appends the OPT record to it.
func newReply(r *dns.Msg, answers, extras int) (p *positive, records []dns.RR) {
	switch n := answers + extras + 1; {
	case n <= len(positive{}.records):
		p = &positive{}
		records = p.records[:]
	case n <= len(several{}.more):
		s := &several{}
		p, records = &s.positive, s.more[:]
	default:
		p, records = &positive{}, make([]dns.RR, n)
	}
	records = p.init(r, records, answers, extras)
	return p, records
}

func (p *positive) init(r *dns.Msg, records []dns.RR, answers, extras int) []dns.RR {
	start(&p.Msg, &p.question, r)
	p.Answer = records[:answers:answers]
	p.Extra = records[answers : answers+extras : answers+extras+1]
	return records
}

// replyTo starts a reply to a question with the records counted.
func (n *counts) replyTo(r *dns.Msg) (p *positive, records []dns.RR, own arrays) {
	switch {
	case n.extras > 0 || n.answers > 1:
	case n.of[index.TypeA] == 1:
		one := &oneA{}
		return &one.positive, one.init(r, one.records[:], 1, 0), arrays{a: one.record[:]}
	case n.of[index.TypeAAAA] == 1:
		one := &oneAAAA{}
		return &one.positive, one.init(r, one.records[:], 1, 0), arrays{aaaa: one.record[:]}
	}
	p, records = newReply(r, n.answers, n.extras)
	srv := n.of[index.TypeSRV]
	return p, records, arrays{
		make([]recordSRV, srv), make([]recordA, max(0, n.of[index.TypeA]-srv)), make([]recordAAAA, max(0, n.of[index.TypeAAAA]-srv)),
	}
}

// replyRecords answers with the records of a type that there is room for, or returns nil if there are none. It goes through them twice, to
// count and to build them.
func (c *ClusterSet) replyRecords(r *dns.Msg, z *zone, l *index.Lookup, t index.Type, fits *packetBudget) *dns.Msg {
	roll := c.random
	switch {
	case fits.steady:
		roll = nil
	case roll == nil:
		roll = rand.Uint64
	}
	answer := l.Answer(t, c.maxAnswers, roll)
	if answer.Len() == 0 {
		return nil
	}
	name := r.Question[0].Name
	n := fits.count(l, &answer, len(serviceName(l, name)))
	p, records, own := n.replyTo(r)
	var hosts hostNames
	hosts.init(l, name, n.names)
	at, built := 0, [len(n.of)]int{}
	for rec := range answer.All {
		if at == n.answers+n.extras {
			break
		}
		owner := name
		switch {
		case at < n.answers:
		case t == index.TypeNS:
			owner = z.ns
		default:
			owner = own.srv[rec.Target].Target
		}
		i := built[rec.Type]
		switch rec.Type {
		case index.TypeA:
			records[at] = c.setA(own.nextA(i), owner, &rec)
		case index.TypeAAAA:
			records[at] = c.setAAAA(own.nextAAAA(i), owner, &rec)
		case index.TypeSRV:
			srv := &own.srv[i]
			srv.SRV = dns.SRV{Hdr: c.header(name, dns.TypeSRV), Weight: rec.Weight, Port: rec.Port}
			if srv.Target = own.srv[rec.Target].Target; int(rec.Target) == i {
				srv.Target = hosts.make(l, name, rec.Host)
			}
			records[at] = &srv.SRV
		case index.TypeNS:
			records[at] = &dns.NS{Hdr: c.header(name, dns.TypeNS), Ns: z.ns}
		}
		built[rec.Type]++
		at++
	}
	return &p.Msg
}

// nextA returns the memory for the A record of that number.
func (s *arrays) nextA(i int) *recordA {
	if i < len(s.srv) {
		return &s.srv[i].a
	}
	return &s.a[i-len(s.srv)]
}

func (s *arrays) nextAAAA(i int) *recordAAAA {
	if i < len(s.srv) {
		return &s.srv[i].aaaa
	}
	return &s.aaaa[i-len(s.srv)]
}

func (c *ClusterSet) setA(to *recordA, owner string, rec *index.Record) dns.RR {
	to.Hdr, to.ip = c.header(owner, dns.TypeA), rec.Addr.As4()
	to.A.A = to.ip[:]
	return &to.A
}

func (c *ClusterSet) setAAAA(to *recordAAAA, owner string, rec *index.Record) dns.RR {
	to.Hdr, to.ip = c.header(owner, dns.TypeAAAA), rec.Addr.As16()
	to.AAAA.AAAA = to.ip[:]
	return &to.AAAA
}

func (c *ClusterSet) header(name string, rrtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: rrtype, Class: dns.ClassINET, Ttl: c.ttl}
}

// serviceName returns the part of the question's name that is the service's own.
func serviceName(l *index.Lookup, qname string) string {
	if l.Labels == "" {
		return qname
	}
	return qname[len(l.Labels)+1:]
}

// hostNames builds the full names of hosts, all in one buffer: the host's own name and the service's name, both in lower case.
type hostNames struct {
	buf     strings.Builder
	service string
}

// init allocates the buffer.
func (n *hostNames) init(l *index.Lookup, qname string, size int) {
	if size > 0 {
		n.service = strings.ToLower(serviceName(l, qname))
		n.buf.Grow(size)
	}
}

// make returns the full name of a target's host.
func (n *hostNames) make(l *index.Lookup, qname string, host int32) string {
	if host == index.ServiceItself {
		return serviceName(l, qname)
	}
	from := n.buf.Len()
	n.buf.WriteString(l.Set.TargetHosts()[host].Key)
	n.buf.WriteByte('.')
	n.buf.WriteString(n.service)
	return n.buf.String()[from:]
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
