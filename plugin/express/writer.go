package express

import (
	"bytes"
	"net/netip"

	"github.com/miekg/dns"
)

// writer writes a reply as CoreDNS would: uncompressed if that fits, or else with the owner names as pointers to the question. Over TCP it
// leaves replies that have to be compressed to the chain.
type writer struct {
	*Responder
	answers *Answers
	out     []byte
	size    int // the longest reply that the client accepts
	via     Via
	at      int
	length  int // uncompressed and without OPT

	// Of a reply with an answer.
	compressed bool
	owner      []byte // of the records, or a pointer to it
	itself     []byte // the service's own name, in wire form
}

// recordSize is the size of a record without its owner and data.
const recordSize = 10

var toQuestion = [2]byte{0xc0, headerSize}

// compresses reports whether CoreDNS compresses a reply of that length, including OPT: it does if the reply is too long for the client
// or would be fragmented (request.Scrub, dns.Truncate).
func (w *writer) compresses(length int) bool {
	switch w.via {
	case UDPv4:
		return length > w.size || length > 1480
	case UDPv6:
		return length > w.size || length > 1220
	default:
		return false
	}
}

func (w *writer) optSize() int {
	if w.query.edns {
		return optSize
	}
	return 0
}

// start writes the header and the question.
func (w *writer) start(rcode byte, answers, authorities int) {
	b := w.query.packet
	w.at = copy(w.out, b[:w.query.end])
	w.out[2] = 0x84 | b[2]&1                              // QR, AA, and RD as asked
	w.out[3] = b[3]&0x10 | rcode                          // CD as asked
	be.PutUint16(w.out[6:], uint16(answers))              //nolint:gosec // bounded by len(out)
	be.PutUint16(w.out[8:], uint16(authorities))          //nolint:gosec // 0 or 1
	be.PutUint16(w.out[10:], uint16(w.optSize()/optSize)) //nolint:gosec // 0 or 1
}

func (w *writer) record(owner []byte, rrtype uint16, size int) {
	w.at += copy(w.out[w.at:], owner)
	b := w.out[w.at : w.at+recordSize]
	be.PutUint16(b, rrtype)
	be.PutUint16(b[2:], dns.ClassINET)
	be.PutUint32(b[4:], w.answers.TTL)
	be.PutUint16(b[8:], uint16(size)) //nolint:gosec // at most a SOA's
	w.at += recordSize
}

// address writes an A or AAAA record.
func (w *writer) address(owner []byte, addr netip.Addr) {
	if addr.Is4() {
		ip := addr.As4()
		w.record(owner, dns.TypeA, len(ip))
		w.at += copy(w.out[w.at:], ip[:])
		return
	}
	ip := addr.As16()
	w.record(owner, dns.TypeAAAA, len(ip))
	w.at += copy(w.out[w.at:], ip[:])
}

// negative writes NXDOMAIN or NODATA, with the zone's SOA (RFC 2308). It returns false if the reply has to be shortened.
func (w *writer) negative(z *Zone, serial uint32, rcode byte) bool {
	owner := w.query.name[len(w.query.name)-len(z.wire):] // in the question's case
	if z.Cluster != nil && !bytes.Equal(owner, z.wire) {
		return false // there the data is in that case too
	}
	size := len(z.soa) + 5*4
	w.length = w.query.end + len(owner) + recordSize + size
	if total := w.length + w.optSize(); w.compresses(total) || total > len(w.out) {
		return false
	}
	w.start(rcode, 0, 1)
	w.record(owner, dns.TypeSOA, size)
	w.at += copy(w.out[w.at:], z.soa)
	a := w.answers
	for _, v := range [5]uint32{serial, a.Refresh, a.Retry, a.Expire, a.TTL} {
		be.PutUint32(w.out[w.at:], v)
		w.at += 4
	}
	return true
}

// end writes the OPT record, which echoes the client's, and returns the length of the reply.
func (w *writer) end() int {
	if w.query.edns {
		o := w.out[w.at : w.at+optSize]
		clear(o)
		be.PutUint16(o[1:], dns.TypeOPT)
		be.PutUint16(o[3:], w.query.payload)
		o[7] = w.query.flags
		w.at += optSize
	}
	return w.at
}
