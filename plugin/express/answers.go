package express

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// Zone is a zone that the express path answers.
type Zone struct {
	// Name is in lower case, with its final dot. Origin is what follows the label svc in the names of services.
	Name, Origin string
	// NameServer and Mailbox are the names in its SOA.
	NameServer, Mailbox string
	Kind                index.Zone
	// Chain leaves the whole zone to the plugin chain. NameErrors leaves only names that don't exist to it: they may fall through, or
	// be above a nested zone.
	Chain, NameErrors bool

	wire, soa []byte // the name, and the data of the SOA up to its serial
}

// Answers has everything that a server block's replies depend on. It doesn't change.
type Answers struct {
	Zones []Zone // closest first
	TTL   uint32
	// Refresh, Retry and Expire are the SOA's timers.
	Refresh, Retry, Expire uint32
	// MaxAnswers is the most addresses that a reply may have here, 0 for no limit: the chain chooses among more.
	MaxAnswers int
	// Snapshot returns the current snapshot, nil before the first sync.
	Snapshot func() *index.Snapshot
	// Self returns the addresses at the zones' name server.
	Self func() index.Addrs
	// Count counts a positive answer at a service's own name.
	Count func(*index.Set)

	Imitate
}

// Imitate describes what plugins before clusterset do to replies.
type Imitate struct {
	// Bufsize is the largest UDP payload size that the plugin bufsize accepts, 65535 without it.
	Bufsize uint16
	// Shuffle shuffles addresses, as loadbalance does.
	Shuffle bool
	// Options is set if queries with EDNS options that CoreDNS drops can be answered: no plugin supports any of these options.
	Options bool
}

// MaxReply is the longest reply written here: longer ones are rare, and the chain knows how to shorten them.
const MaxReply = 1472

// maxAddrs is more addresses than fit into a reply.
const maxAddrs = MaxReply / 12

// Responder has the buffers that one reader needs to answer without allocating. It is for one goroutine.
type Responder struct {
	name    [256]byte // the name asked for, as text in lower case
	order   [maxAddrs]uint8
	lookup  index.Lookup
	targets targets
}

// Prepare packs the names of the zones. Call it before the first reply.
func (a *Answers) Prepare() error {
	for i := range a.Zones {
		z := &a.Zones[i]
		var err error
		if z.wire, err = packNames(z.Name); err == nil {
			z.soa, err = packNames(z.NameServer, z.Mailbox)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func packNames(names ...string) ([]byte, error) {
	b, end := make([]byte, 512), 0
	for _, name := range names {
		n, err := dns.PackDomainName(name, b, end, nil, false)
		if err != nil {
			return nil, err
		}
		end = n
	}
	return b[:end:end], nil
}

// Reply is a reply that was written.
type Reply struct {
	// Size is its length, 0 if the chain has to answer.
	Size int

	// The other fields are for metrics.
	length int // without compression and OPT, as the chain counts it
	zone   int // the index of the zone
	qtype  qtype
	rcode  byte
	do     bool
}

// match returns the closest zone of a name, or -1. The name is plain: a dot in it separates labels.
func (a *Answers) match(name []byte) int {
	for i := range a.Zones {
		z := a.Zones[i].Name
		at := len(name) - len(z)
		if at >= 0 && string(name[at:]) == z && (at == 0 || z == "." || name[at-1] == '.') {
			return i
		}
	}
	return -1
}

// Reply writes the reply to a packet from an IPv4 or IPv6 address into out, which has room for MaxReply bytes. It writes nothing if
// the chain has to answer.
func (s *Responder) Reply(a *Answers, out, packet []byte, ipv6 bool) (r Reply) {
	var q query
	if !q.parse(s, packet, a.Options) {
		return r
	}
	r.zone = a.match(s.name[:q.nameLen])
	if r.zone < 0 || a.Zones[r.zone].Chain {
		return r
	}
	z := &a.Zones[r.zone]
	snapshot := a.Snapshot()
	if snapshot == nil || snapshot.Stale() {
		return r
	}
	l := &s.lookup
	*l = index.Lookup{}
	snapshot.Lookup(l, z.Kind, s.below(&q, z))
	addrs := l.Addrs
	switch l.Kind {
	case index.NameError:
		if z.NameErrors {
			return r
		}
	case index.Empty, index.PortName, index.ServiceName, index.HostName:
	case index.NameServer:
		addrs = a.Self()
	default:
		return r
	}
	w := writer{out: out, query: &q, size: q.limit(a.Bufsize), ipv6: ipv6}
	v4, v6 := addrs.Split()
	positive := true
	var fits bool
	switch {
	case q.qtype == typeA && len(v4) > 0:
		fits = (a.MaxAnswers == 0 || len(v4) <= a.MaxAnswers) && w.addresses(a, s, v4)
	case q.qtype == typeAAAA && len(v6) > 0:
		fits = (a.MaxAnswers == 0 || len(v6) <= a.MaxAnswers) && w.addresses(a, s, v6)
	case q.qtype == typeSRV && l.Targets.Len() > 0:
		fits = w.srv(a, s, l)
	default:
		if positive = false; l.Kind == index.NameError {
			r.rcode = dns.RcodeNameError
		}
		fits = w.negative(a, z, snapshot.Serial(), r.rcode)
	}
	if !fits {
		return r
	}
	if positive && l.Kind == index.ServiceName {
		a.Count(l.Set)
	}
	r.Size, r.length, r.qtype, r.do = w.end(), w.length, q.qtype, q.flags&0x80 != 0
	return r
}

// MaxUDP is the size of the largest reply over UDP, in bytes: the largest payload size that RFC 6891 section 6.2.5 suggests. For
// longer replies clients have to use TCP.
const MaxUDP = 4096

// limit returns the maximum length of a reply.
func (q *query) limit(bufsize uint16) int {
	if q.payload > bufsize {
		q.payload = bufsize
	}
	return min(max(dns.MinMsgSize, int(q.payload)), MaxUDP)
}

// be is the order of bytes on the wire.
var be = binary.BigEndian
