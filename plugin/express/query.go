package express

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/internal/index"
)

// qtype is a record type that is answered here. Those after typeSRV are answered with NODATA.
type qtype uint8

const (
	typeA    = qtype(index.TypeA)
	typeAAAA = qtype(index.TypeAAAA)
	typeSRV  = qtype(index.TypeSRV)
	typeTXT  = typeSRV + 1
	qtypes   = typeSRV + 4
)

var qtypeNumbers = [qtypes]uint16{
	typeA: dns.TypeA, typeAAAA: dns.TypeAAAA, typeSRV: dns.TypeSRV, typeTXT: dns.TypeTXT, typeTXT + 1: dns.TypeHTTPS, typeTXT + 2: dns.TypeMX,
}

// qtypeOf reads the type of a question.
func qtypeOf(t uint16) (qtype, bool) {
	i := slices.Index(qtypeNumbers[:], t)
	return qtype(i), i >= 0 //nolint:gosec // few
}

// String returns the type as metrics name it.
func (q qtype) String() string { return dns.TypeToString[qtypeNumbers[q]] }

// query is a packet that may be answered here: one question of class IN for a name of plain characters, with flags and an OPT record that
// request nothing special.
type query struct {
	packet  []byte
	nameLen int    // of the name as text
	name    []byte // in wire form, in the case asked
	end     int    // of the question
	qtype   qtype
	edns    bool
	payload uint16 // the UDP payload size in the OPT record
	flags   byte   // the upper byte of the OPT record's flags, DO first
}

const (
	headerSize = 12
	optSize    = 11 // without options
)

// parse parses a packet. It returns false if the chain has to answer it.
func (q *query) parse(s *Responder, b []byte, options bool) bool {
	// QR, opcode, AA and TC are clear, RD is free; RA, Z and the rcode are clear, AD and CD are free; one question, no answer, no
	// authority, and OPT at most.
	if len(b) < headerSize+1+4 || b[2]&^1 != 0 || b[3]&^0x30 != 0 || be.Uint64(b[4:])>>16 != 0x0001_0000_0000 || be.Uint16(b[10:]) > 1 {
		return false
	}
	q.packet = b
	if !q.parseName(s) {
		return false
	}
	var known bool
	if q.qtype, known = qtypeOf(be.Uint16(b[q.end-4:])); !known || be.Uint16(b[q.end-2:]) != dns.ClassINET {
		return false
	}
	if b[11] == 0 {
		return len(b) == q.end
	}
	return q.parseOPT(options)
}

// parseName parses the question's name into text in lower case.
func (q *query) parseName(s *Responder) bool {
	b, at, n := q.packet, headerSize, 0
	for {
		if at >= len(b) {
			return false
		}
		length := int(b[at])
		at++
		if length == 0 {
			break
		}
		if length > 63 || at+length > len(b) || n+length+1 > 254 {
			return false // a pointer, among others
		}
		for _, c := range b[at : at+length] {
			c = plain[c]
			if c == 0 {
				return false
			}
			s.name[n] = c
			n++
		}
		s.name[n] = '.'
		n++
		at += length
	}
	q.nameLen, q.name, q.end = n, b[headerSize:at], at+4
	return n > 0 && q.end <= len(b)
}

// lower reports whether the name is in lower case.
func (q *query) lower() bool {
	return !slices.ContainsFunc(q.name, func(c byte) bool { return 'A' <= c && c <= 'Z' }) // the length of a label is never in this range
}

// parseOPT parses an OPT record of version 0 at the end of the packet, with no options or only options that change nothing.
func (q *query) parseOPT(options bool) bool {
	o := q.packet[q.end:]
	if len(o) < optSize || o[0] != 0 || be.Uint16(o[1:]) != dns.TypeOPT || o[5] != 0 || o[6] != 0 {
		return false
	}
	q.edns, q.payload, q.flags = true, be.Uint16(o[3:]), o[7]
	data := o[optSize:]
	if int(be.Uint16(o[9:])) != len(data) || len(data) > 0 && !options {
		return false
	}
	for len(data) > 0 {
		if len(data) < 4 {
			return false
		}
		code, length := be.Uint16(data), int(be.Uint16(data[2:]))
		if data = data[4:]; length > len(data) || !idle(code, length) {
			return false
		}
		data = data[length:]
	}
	return true
}

// idleOptions are EDNS options that CoreDNS drops unless a plugin supports them, so they don't change a reply. Cookies matter only to
// servers that issue cookies (RFC 7873), padding only on encrypted transports (RFC 7830), keepalive only over TCP (RFC 7828).
var idleOptions = []uint16{dns.EDNS0COOKIE, dns.EDNS0PADDING, dns.EDNS0TCPKEEPALIVE}

// idle reports whether an option of that length is one of idleOptions. CoreDNS answers FORMERR to a keepalive of another length.
func idle(code uint16, length int) bool {
	return slices.Contains(idleOptions, code) && (code != dns.EDNS0TCPKEEPALIVE || length == 0 || length == 2)
}

// plain maps bytes that may be in names answered here to lower case, and all other bytes to 0.
var plain = func() (t [256]byte) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyz0123456789-_") {
		t[c] = c
		t[strings.ToUpper(string(c))[0]] = c
	}
	return t
}()

// below returns the labels of the name in front of the zone's origin, without a final dot. It refers to the responder's buffer, and is
// valid while the reply is built.
func (s *Responder) below(q *query, z *Zone) string {
	n := q.nameLen - len(z.Origin)
	if n > 0 && z.Origin != "." {
		n--
	}
	return unsafe.String(&s.name[0], n)
}
