package clusterset_test

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// exchangeTimeout bounds one exchange. An answer takes microseconds, but a machine that also compiles can be much slower.
const exchangeTimeout = 10 * time.Second

// goldenClient asks one server and counts responses. It uses one UDP socket for a whole case and a new ID for each query. After
// each response it sends a sentinel query and waits for its response, so that it sees a second response without waiting for time to
// pass. A later query or drain sees one that arrives even later.
type goldenClient struct {
	server  *goldenServer
	udp     *dns.Conn
	id      uint16
	asked   map[uint16]string     // the answered queries, by ID
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

func newGoldenClient(t *testing.T, s *goldenServer) *goldenClient {
	t.Helper()
	c := &goldenClient{server: s, asked: map[uint16]string{}, serials: map[servedZone]uint32{}}
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
	r, err := c.exchange(conn, m, q.text)
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
	m := &dns.Msg{}
	m.Id, m.Opcode, m.RecursionDesired, m.CheckingDisabled = c.nextID(), q.opcode, q.rd, q.cd
	m.Question = []dns.Question{{Name: q.name, Qtype: q.qtype, Qclass: q.qclass}}
	if q.edns > 0 {
		m.SetEdns0(q.edns, q.do)
	}
	if q.serial != "" {
		serial, known := c.serials[q.zone(q.name)]
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
			return nil, fmt.Errorf("no SOA of %s was seen yet: ask for it first", q.name)
		}
		m.Ns = []dns.RR{&dns.SOA{
			Hdr: dns.RR_Header{Name: q.name, Rrtype: dns.TypeSOA, Class: dns.ClassINET}, Ns: ".", Mbox: ".", Serial: serial,
		}}
	}
	return m, nil
}

func (c *goldenClient) nextID() uint16 {
	c.id++
	return c.id
}

func (c *goldenClient) dial(transport string) (*dns.Conn, error) {
	if transport == "tcp" {
		return dns.DialTimeout("tcp", c.server.tcp, exchangeTimeout)
	}
	if c.server.tls == "" {
		return nil, errors.New("the Corefile has no tls:// server")
	}
	return dns.DialTimeoutWithTLS("tcp-tls", c.server.tls, c.server.tlsConfig(), exchangeTimeout)
}

// exchange sends m and reads its response, then a sentinel and its response. Any other message is an error.
func (c *goldenClient) exchange(conn *dns.Conn, m *dns.Msg, text string) (*response, error) {
	if conn == nil {
		return nil, errors.New("the Corefile has no plain server")
	}
	if err := conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return nil, err
	}
	if err := conn.WriteMsg(m); err != nil {
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
	c.asked[m.Id] = text
	return r, c.sentinel(conn)
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
		if text, ok := c.asked[m.Id]; ok {
			return nil, 0, fmt.Errorf("a second response came to: dig %s\n%v", text, m)
		}
		return nil, 0, fmt.Errorf("a response with an id nobody asked with:\n%v", m)
	}
	return m, len(packet), nil
}

// sentinel sends a query for another name and waits for its response.
func (c *goldenClient) sentinel(conn *dns.Conn) error {
	m := &dns.Msg{}
	m.Id = c.nextID()
	m.Question = []dns.Question{{Name: "sentinel.invalid.", Qtype: dns.TypeA, Qclass: dns.ClassINET}}
	if err := conn.WriteMsg(m); err != nil {
		return fmt.Errorf("send the sentinel: %w", err)
	}
	_, _, err := c.read(conn, m.Id)
	c.asked[m.Id] = "sentinel"
	return err
}

// drain reports responses that arrived late.
func (c *goldenClient) drain() error {
	if c.udp == nil {
		return nil
	}
	if err := c.udp.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return err
	}
	return c.sentinel(c.udp)
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
	case (m.IsEdns0() != nil) != (q.edns > 0):
		return fmt.Errorf("EDNS in the query: %v, in the reply: %v", q.edns > 0, m.IsEdns0() != nil)
	}
	limit := dns.MaxMsgSize
	if q.transport == "udp" {
		limit = max(dns.MinMsgSize, int(q.edns))
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
