package express

import (
	"encoding/binary"
	"slices"

	"github.com/coredns/coredns/plugin/kubernetes"
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
	// Cluster answers for a zone of the plugin kubernetes. It is nil for a zone of clusterset.
	Cluster *Cluster

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

// MaxReply is the longest reply written here over UDP: longer ones are rare, and the chain knows how to shorten them. Over TCP it is
// dns.MaxMsgSize.
const MaxReply = 1472

// Via is how a query came.
type Via uint8

// The ways of a query.
const (
	UDPv4 Via = iota
	UDPv6
	TCP // with or without TLS
)

// Responder has the buffers that one reader needs to answer without allocating. It is for one goroutine.
type Responder struct {
	name    [256]byte // the name asked for, as text in lower case
	query   query
	lookup  index.Lookup
	records []index.Record // with room for as many as fit into a reply
	targets []targetName   // of the SRV records among them, by the first record that points there
	pointer [2]byte        // the last one written
	found   found
}

// Add adds zones.
func (a *Answers) Add(zones []Zone) {
	a.Zones = append(a.Zones, zones...)
	slices.SortStableFunc(a.Zones, func(x, y Zone) int { return len(y.Name) - len(x.Name) })
}

// names returns the zones' names.
func (a *Answers) names() (names []string) {
	for i := range a.Zones {
		names = append(names, a.Zones[i].Name)
	}
	return names
}

// NewResponder returns a responder for replies of at most the given size: MaxReply or dns.MaxMsgSize.
func NewResponder(size int) *Responder {
	return &Responder{
		records: make([]index.Record, size/(len(toQuestion)+recordSize+4)), // A records are the shortest
		targets: make([]targetName, size/(len(toQuestion)+recordSize+srvSize)),
	}
}

// Prepare packs the names of the zones. Call it before the first reply.
func (a *Answers) Prepare() error {
	for i := range a.Zones {
		z := &a.Zones[i]
		if z.Cluster != nil {
			z.Cluster.replies.Imitate = a.Imitate
		}
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
	full   bool // the reply may fit into an empty buffer
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

// Reply writes the reply to a message into out. It writes nothing if the chain has to answer, as it has to if the reply doesn't fit into
// out.
func (s *Responder) Reply(a *Answers, out, packet []byte, via Via) (r Reply) {
	q := &s.query
	*q = query{}
	if !q.parse(s, packet, a.Options) {
		return r
	}
	r.zone = a.match(s.name[:q.nameLen])
	if r.zone < 0 || a.Zones[r.zone].Chain {
		return r
	}
	z := &a.Zones[r.zone]
	l := &s.lookup
	serial, known := a.lookup(s, q, z)
	if !known {
		return r
	}
	if z.Cluster != nil {
		a = &z.Cluster.replies
	}
	switch l.Kind {
	case index.NameError:
		if z.NameErrors {
			return r
		}
	case index.Empty, index.PortName, index.ServiceName, index.HostName:
	case index.NameServer:
		l.Addrs = a.Self()
	default:
		return r
	}
	w := writer{Responder: s, answers: a, out: out, size: q.limit(a.Bufsize, via), via: via}
	var answer index.Answer
	if q.qtype <= typeSRV {
		answer = l.Answer(index.Type(q.qtype), a.MaxAnswers, nil)
	}
	var fits bool
	if answer.Len() > 0 {
		fits = !answer.Cut() && w.answer(&answer)
	} else {
		if l.Kind == index.NameError {
			r.rcode = dns.RcodeNameError
		}
		fits = w.negative(z, serial, r.rcode)
	}
	if !fits {
		r.full = via == TCP && len(out) < dns.MaxMsgSize
		return r
	}
	if answer.Len() > 0 && l.Kind == index.ServiceName {
		a.Count(l.Set)
	}
	r.Size, r.length, r.qtype, r.do = w.end(), w.length, q.qtype, q.flags&0x80 != 0
	return r
}

// lookup looks up the name asked for, and returns the zone's serial. It returns false if the chain has to answer.
func (a *Answers) lookup(s *Responder, q *query, z *Zone) (serial uint32, known bool) {
	s.lookup = index.Lookup{}
	below := s.below(q, z)
	if c := z.Cluster; c != nil {
		known = c.lookup(s, q, below)
		return uint32(c.store.Modified(kubernetes.ModifiedInternal)), known //nolint:gosec // as in the plugin kubernetes
	}
	snapshot := a.Snapshot()
	if snapshot == nil || snapshot.Stale() {
		return 0, false
	}
	snapshot.Lookup(&s.lookup, z.Kind, below)
	return snapshot.Serial(), true
}

// MaxUDP is the size of the largest reply over UDP, in bytes: the largest payload size that RFC 6891 section 6.2.5 suggests. For
// longer replies clients have to use TCP.
const MaxUDP = 4096

// limit returns the maximum length of a reply.
func (q *query) limit(bufsize uint16, via Via) int {
	if q.payload > bufsize {
		q.payload = bufsize
	}
	if via == TCP {
		return dns.MaxMsgSize
	}
	return min(max(dns.MinMsgSize, int(q.payload)), MaxUDP)
}

// be is the order of bytes on the wire.
var be = binary.BigEndian
