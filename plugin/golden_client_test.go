package clusterset_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// exchangeTimeout bounds one exchange. An answer takes microseconds, but a machine that also compiles can be much slower.
const exchangeTimeout = 10 * time.Second

// goldenClient asks one server. It uses one UDP socket for a whole case and a new ID for each query, so that the next query sees a second response.
type goldenClient struct {
	server  *liveServer
	udp     *dns.Conn // nil if the Corefile has no plain server
	id      uint16
	serials map[servedZone]uint32 // the last SOA serial of each zone
}

// servedZone is a zone in one server block. A block with TLS follows the objects independently, so its serial may differ.
type servedZone struct {
	name string
	tls  bool
}

func (q *goldenQuery) zone(name string) servedZone {
	return servedZone{dns.CanonicalName(name), q.transport == "tls"}
}

func newGoldenClient(t *testing.T, s *liveServer) *goldenClient {
	t.Helper()
	c := &goldenClient{server: s, serials: map[servedZone]uint32{}}
	if s.udp == "" {
		return c
	}
	conn, err := net.Dial("udp", s.udp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c.udp = &dns.Conn{Conn: conn, UDPSize: dns.MaxMsgSize}
	return c
}

// response holds everything received for one query: one message, or the messages of a zone transfer.
type response struct {
	messages []*dns.Msg
	size     int // size of the first message
}

// ask sends a query and returns the normal form of its response.
func (c *goldenClient) ask(q *goldenQuery) (string, error) {
	m, err := c.message(q)
	if err != nil {
		return "", err
	}
	conn := c.udp
	if q.transport != "udp" {
		if conn, err = c.dial(q.transport); err != nil {
			return "", err
		}
		defer conn.Close()
	}
	r, err := c.exchange(conn, m)
	if err != nil {
		return "", err
	}
	if err := c.check(q, m, r); err != nil {
		return "", err
	}
	return normalForm(q, r), nil
}

// message builds the query.
func (c *goldenClient) message(q *goldenQuery) (*dns.Msg, error) {
	m := q.msg.Copy()
	c.id++
	m.Id = c.id
	if q.serial == "" {
		return m, nil
	}
	name := m.Question[0].Name
	serial, known := c.serials[q.zone(name)]
	switch q.serial {
	case "current":
	case "old":
		serial--
	default:
		n, err := strconv.ParseUint(q.serial, 10, 32)
		if err != nil {
			return nil, err
		}
		serial, known = uint32(n), true //nolint:gosec // parsed as 32 bits
	}
	if !known {
		return nil, fmt.Errorf("no SOA of %s was seen yet: ask for it first", name)
	}
	m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeSOA, Class: dns.ClassINET}, Ns: ".", Mbox: ".", Serial: serial}}
	return m, nil
}

func (c *goldenClient) dial(transport string) (*dns.Conn, error) {
	if transport == "tcp" {
		return dns.DialTimeout("tcp", c.server.tcp, exchangeTimeout)
	}
	if c.server.tls == "" {
		return nil, errors.New("the Corefile has no tls:// server")
	}
	return dns.DialTimeoutWithTLS("tcp-tls", c.server.tls, &tls.Config{RootCAs: c.server.roots, MinVersion: tls.VersionTLS12}, exchangeTimeout)
}

// exchange sends m and reads its response. Any other message is an error.
func (c *goldenClient) exchange(conn *dns.Conn, m *dns.Msg) (*response, error) {
	if conn == nil {
		return nil, errors.New("the Corefile has no plain server")
	}
	if err := send(conn, m); err != nil {
		return nil, err
	}
	r := &response{}
	for !r.complete(m) {
		reply, size, err := c.read(conn, m.Id)
		if err != nil {
			return nil, err
		}
		if r.messages == nil {
			r.size = size
		}
		r.messages = append(r.messages, reply)
	}
	return r, nil
}

func send(conn *dns.Conn, m *dns.Msg) error {
	if err := conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return err
	}
	return conn.WriteMsg(m)
}

// read reads the next message. It returns an error if the message has another ID.
func (c *goldenClient) read(conn *dns.Conn, id uint16) (*dns.Msg, int, error) {
	packet, err := conn.ReadMsgHeader(nil)
	if err != nil {
		return nil, 0, fmt.Errorf("no response: %w", err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(packet); err != nil {
		return nil, 0, fmt.Errorf("unpack a response: %w", err)
	}
	if m.Id != id {
		return nil, 0, fmt.Errorf("a second response, or one to nobody:\n%v", m)
	}
	return m, len(packet), nil
}

// complete reports whether the response is complete. A zone transfer ends with the SOA that it began with, unless it is an error or
// an IXFR reply that nothing changed.
func (r *response) complete(query *dns.Msg) bool {
	if len(r.messages) == 0 {
		return false
	}
	if qtype := query.Question[0].Qtype; qtype != dns.TypeAXFR && qtype != dns.TypeIXFR {
		return true
	}
	records := r.answer()
	if r.messages[0].Rcode != dns.RcodeSuccess || len(records) == 0 || query.Question[0].Qtype == dns.TypeIXFR && len(records) == 1 {
		return true
	}
	return len(records) > 1 && records[len(records)-1].Header().Rrtype == dns.TypeSOA
}

func (r *response) answer() []dns.RR {
	var records []dns.RR
	for _, m := range r.messages {
		records = append(records, m.Answer...)
	}
	return records
}

// check checks rules that hold for every reply, so that no case has to state them.
func (c *goldenClient) check(q *goldenQuery, query *dns.Msg, r *response) error {
	m := r.messages[0]
	switch {
	case !m.Response:
		return errors.New("the reply has no QR flag")
	case m.Opcode != query.Opcode:
		return fmt.Errorf("opcode %d in reply to %d", m.Opcode, query.Opcode)
	case len(m.Question) != 1 || m.Question[0] != asTransmitted(query):
		return fmt.Errorf("the reply repeats the question as %v, not as it was asked", m.Question)
	case m.Zero:
		return errors.New("a reserved flag is set")
	case (m.IsEdns0() != nil) != (query.IsEdns0() != nil):
		return fmt.Errorf("EDNS in the query: %v, in the reply: %v", query.IsEdns0() != nil, m.IsEdns0() != nil)
	}
	limit := dns.MaxMsgSize
	if q.transport == "udp" {
		limit = dns.MinMsgSize
		if opt := query.IsEdns0(); opt != nil {
			limit = max(limit, int(opt.UDPSize()))
		}
	}
	if r.size > limit {
		return fmt.Errorf("the reply has %d bytes, more than the %d that fit", r.size, limit)
	}
	for _, rr := range append(r.answer(), m.Ns...) {
		if soa, ok := rr.(*dns.SOA); ok {
			if err := c.checkSerial(q.zone(soa.Hdr.Name), soa); err != nil {
				return err
			}
		}
	}
	return nil
}

// asTransmitted returns the question as it is after transmission, without unnecessary escapes.
func asTransmitted(query *dns.Msg) dns.Question {
	packet, err := query.Pack()
	if err != nil {
		return dns.Question{}
	}
	m := new(dns.Msg)
	if m.Unpack(packet) != nil {
		return dns.Question{}
	}
	return m.Question[0]
}

// checkSerial returns an error if a serial is zero, which a secondary takes for a missing one, or goes back. The name server in the
// SOA distinguishes the zone from that of a next plugin for the same zone.
func (c *goldenClient) checkSerial(zone servedZone, soa *dns.SOA) error {
	if !strings.HasPrefix(soa.Ns, "ns.dns.") {
		return nil
	}
	last, seen := c.serials[zone]
	c.serials[zone] = soa.Serial
	if soa.Serial == 0 {
		return fmt.Errorf("the SOA serial of %s is 0", zone.name)
	}
	if seen && int32(soa.Serial-last) < 0 { //nolint:gosec // serial number arithmetic (RFC 1982)
		return fmt.Errorf("the SOA serial of %s went from %d down to %d", zone.name, last, soa.Serial)
	}
	return nil
}

// normalForm formats a response as the corpus does: status, EDNS, then the sections that are not empty, with sorted
// records.
func normalForm(q *goldenQuery, r *response) string {
	m := r.messages[0]
	var b strings.Builder
	b.WriteString(dns.RcodeToString[m.Rcode])
	for _, f := range []struct {
		set  bool
		name string
	}{
		{m.Authoritative, "aa"},
		{m.Truncated, "tc"},
		{m.RecursionDesired, "rd"},
		{m.RecursionAvailable, "ra"},
		{m.AuthenticatedData, "ad"},
		{m.CheckingDisabled, "cd"},
	} {
		if f.set {
			b.WriteString(" " + f.name)
		}
	}
	b.WriteByte('\n')
	if q.size {
		fmt.Fprintf(&b, ";size %d\n", r.size)
	}
	if opt := m.IsEdns0(); opt != nil {
		b.WriteString(normalEDNS(opt))
	}
	extra := slices.DeleteFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	for _, section := range []struct {
		name    string
		records []dns.RR
	}{{"answer", r.answer()}, {"authority", m.Ns}, {"additional", extra}} {
		switch {
		case len(section.records) == 0:
		case q.count:
			fmt.Fprintf(&b, ";%s %d\n", section.name, len(section.records))
		default:
			fmt.Fprintf(&b, ";%s\n%s", section.name, normalRecords(section.records))
		}
	}
	return b.String()
}

func normalEDNS(opt *dns.OPT) string {
	var b strings.Builder
	fmt.Fprintf(&b, ";edns %d", opt.UDPSize())
	if opt.Do() {
		b.WriteString(" do")
	}
	for _, option := range opt.Option {
		if ede, ok := option.(*dns.EDNS0_EDE); ok {
			fmt.Fprintf(&b, " ede=%d %q", ede.InfoCode, ede.ExtraText)
		} else {
			fmt.Fprintf(&b, " option=%d", option.Option())
		}
	}
	return b.String() + "\n"
}

// normalRecords sorts records. In a zone transfer, the first and last SOA stay in place.
func normalRecords(records []dns.RR) string {
	lines := make([]string, len(records))
	for i, rr := range records {
		if soa, ok := rr.(*dns.SOA); ok {
			rr = dns.Copy(soa)
			rr.(*dns.SOA).Serial = 0
			lines[i] = strings.Replace(rr.String(), " 0 ", " SERIAL ", 1)
		} else {
			lines[i] = rr.String()
		}
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	inner := lines
	if n := len(lines); n > 1 && records[0].Header().Rrtype == dns.TypeSOA && records[n-1].Header().Rrtype == dns.TypeSOA {
		inner = lines[1 : n-1]
	}
	slices.Sort(inner)
	return strings.Join(lines, "\n") + "\n"
}
