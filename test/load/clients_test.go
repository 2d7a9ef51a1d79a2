package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// patience is how long a client waits for an answer. Resolvers wait five seconds. On a machine that runs other programs an answer
// may take longer, which isn't the server's fault. The test reports the slowest answer.
const patience = 30 * time.Second

// transport is how a client sends its queries.
type transport string

const (
	overUDP transport = "UDP"
	overTCP transport = "TCP"
	overTLS transport = "DoT"
)

// mix is the number of clients for each transport.
var mix = map[transport]int{overUDP: 12, overTCP: 4, overTLS: 4}

// tally counts what clients saw.
type tally struct {
	asked    int
	answered int // correctly
	servfail int
	lost     int // without an answer
	again    int // retries after the server closed the connection, as RFC 7766 section 6.2.4 asks of clients
	wrong    []string
	slowest  time.Duration
}

func (a *tally) add(b tally) {
	a.asked += b.asked
	a.answered += b.answered
	a.servfail += b.servfail
	a.lost += b.lost
	a.again += b.again
	a.wrong = append(a.wrong, b.wrong[:min(len(b.wrong), 5)]...)
	a.slowest = max(a.slowest, b.slowest)
}

func (a tally) String() string {
	return fmt.Sprintf("asked %d, answered rightly %d, SERVFAIL %d, wrong %d, lost %d, asked again %d, slowest %s",
		a.asked, a.answered, a.servfail, len(a.wrong), a.lost, a.again, a.slowest.Round(time.Millisecond))
}

// client sends one query after the other over one socket or connection.
type client struct {
	server *server
	over   transport
	rand   *rand.Rand
	conn   *dns.Conn
	tally  tally
}

// ask makes all clients of the mix send queries until the context ends, either without a pause or perSecond queries in total.
func (s *server) ask(ctx context.Context, perSecond float64) (map[transport]tally, error) {
	before, err := s.drops()
	if err != nil {
		return nil, err
	}
	var wait sync.WaitGroup
	var clients []*client
	for over, n := range mix {
		for range n {
			clients = append(clients, &client{server: s, over: over, rand: rand.New(rand.NewPCG(1, uint64(len(clients))))})
		}
	}
	var interval time.Duration
	if perSecond > 0 {
		interval = time.Duration(float64(time.Second) * float64(len(clients)) / perSecond)
	}
	for _, c := range clients {
		wait.Go(func() { c.run(ctx, interval) })
	}
	wait.Wait()
	after, err := s.drops()
	sums := map[transport]tally{}
	for _, c := range clients {
		c.hangUp()
		sum := sums[c.over]
		sum.add(c.tally)
		sums[c.over] = sum
	}
	if dropped := after - before; dropped > 0 {
		udp := sums[overUDP]
		udp.lost -= min(udp.lost, dropped) // dropped by the sockets, not by the server
		sums[overUDP] = udp
	}
	return sums, err
}

func (c *client) run(ctx context.Context, interval time.Duration) {
	next := time.Now().Add(time.Duration(c.rand.Int64N(int64(interval) + 1)))
	for ctx.Err() == nil {
		if wait := time.Until(next); interval > 0 && wait > 0 {
			<-time.After(wait)
		}
		next = next.Add(interval)
		if late := time.Now().Add(-time.Second); next.Before(late) {
			next = late // don't catch up on more than a second
		}
		c.one()
	}
}

// one sends one random query and checks the answer.
func (c *client) one() { c.send(draw(c.rand)) }

// send sends a query and checks the answer.
func (c *client) send(q question) {
	began := time.Now()
	c.tally.asked++
	reply, err := c.exchange(q)
	c.tally.slowest = max(c.tally.slowest, time.Since(began))
	switch {
	case err != nil:
		c.tally.lost++
		c.tally.wrong = append(c.tally.wrong, note(c.over, q, err)...)
	case reply.Rcode == dns.RcodeServerFailure:
		c.tally.servfail++
	default:
		if err := q.check(reply); err != nil {
			c.tally.wrong = append(c.tally.wrong, fmt.Sprintf("%s %s: %v", c.over, q.name, err))
			return
		}
		c.tally.answered++
	}
}

// note returns what to report about a query without an answer. Over UDP such queries are only counted, because the kernel may have
// dropped the packet.
func note(over transport, q question, err error) []string {
	if over == overUDP {
		return nil
	}
	return []string{fmt.Sprintf("%s %s: %v", over, q.name, err)}
}

// exchange sends the query over the client's connection. If the server closes it, exchange retries over a new one, three times at
// most.
func (c *client) exchange(q question) (*dns.Msg, error) {
	for again := 0; ; again++ {
		reply, err := c.exchangeOnce(q)
		if err == nil || c.over == overUDP || again == 3 || isTimeout(err) {
			return reply, err
		}
		c.tally.again++
	}
}

func (c *client) exchangeOnce(q question) (*dns.Msg, error) {
	if err := c.dial(); err != nil {
		return nil, err
	}
	query := new(dns.Msg).SetQuestion(q.name, q.qtype)
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if err := c.conn.WriteMsg(query); err != nil {
		c.hangUp()
		return nil, err
	}
	for {
		reply, err := c.conn.ReadMsg()
		if err != nil {
			if c.over != overUDP { // keep the socket for its count of drops
				c.hangUp()
			}
			return nil, err
		}
		if reply.Id == query.Id && reply.Question[0].Name == q.name {
			return reply, nil
		}
		// A late answer to a query that was given up.
	}
}

func (c *client) dial() error {
	if c.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: patience}
	var conn net.Conn
	var err error
	switch c.over {
	case overUDP:
		conn, err = dialer.Dial("udp", c.server.plain)
	case overTCP:
		conn, err = dialer.Dial("tcp", c.server.plain)
	case overTLS:
		conn, err = tls.DialWithDialer(&dialer, "tcp", c.server.tls, &tls.Config{RootCAs: c.server.trusted, MinVersion: tls.VersionTLS13})
	}
	if err == nil {
		c.conn = &dns.Conn{Conn: conn}
	}
	return err
}

func (c *client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// question is a query with a check of its answer.
type question struct {
	name  string
	qtype uint16
	check func(*dns.Msg) error
}

// draw returns a random question. Most are for names with one address, as from pods.
func draw(r *rand.Rand) question {
	switch kind := r.IntN(10); {
	case kind < 5:
		i := r.IntN(stable)
		return of("stable-%d", i, exactly(stableIP(i)))
	case kind < 7:
		i := r.IntN(headless)
		return of("headless-%d", i, exactly(headlessIPs(i, 10)...))
	case kind < 9:
		i := r.IntN(changing)
		return of("changing-%d", i, oneGeneration(i))
	default:
		return of("nobody-%d", r.IntN(1000), nameError)
	}
}

func of(format string, i int, check func(*dns.Msg) error) question {
	return question{fmt.Sprintf(format, i) + ".load.svc.clusterset.local.", dns.TypeA, check}
}

func nameError(reply *dns.Msg) error {
	if reply.Rcode != dns.RcodeNameError || len(reply.Answer) > 0 || len(reply.Ns) != 1 {
		return fmt.Errorf("want NXDOMAIN with a SOA, got %s", reply)
	}
	return nil
}

func addresses(reply *dns.Msg) (map[netip.Addr]bool, error) {
	if reply.Rcode != dns.RcodeSuccess {
		return nil, fmt.Errorf("got %s", dns.RcodeToString[reply.Rcode])
	}
	got := map[netip.Addr]bool{}
	for _, rr := range reply.Answer {
		a, ok := rr.(*dns.A)
		if !ok {
			return nil, fmt.Errorf("got the record %s", rr)
		}
		ip, _ := netip.AddrFromSlice(a.A.To4())
		got[ip] = true
	}
	if len(got) != len(reply.Answer) {
		return nil, fmt.Errorf("an address is there twice: %s", reply)
	}
	return got, nil
}

func exactly(want ...netip.Addr) func(*dns.Msg) error {
	return func(reply *dns.Msg) error {
		got, err := addresses(reply)
		if err != nil {
			return err
		}
		for _, ip := range want {
			if !got[ip] {
				return fmt.Errorf("%s is missing from %s", ip, reply)
			}
		}
		if len(got) != len(want) {
			return fmt.Errorf("want %d addresses, got %s", len(want), reply)
		}
		return nil
	}
}

// oneGeneration accepts the endpoints of any single generation of a changing service. An answer may be old by the time it is read,
// but it must never mix generations.
func oneGeneration(i int) func(*dns.Msg) error {
	return func(reply *dns.Msg) error {
		got, err := addresses(reply)
		if err != nil {
			return err
		}
		for generation := range 250 {
			ips := changingIPs(i, generation)
			if len(got) == len(ips) && got[ips[0]] && got[ips[1]] && got[ips[2]] {
				return nil
			}
		}
		return fmt.Errorf("%v are no generation of changing-%d", got, i)
	}
}

// current accepts only the generation that was written last.
func current(c *cluster, i int) func(*dns.Msg) error {
	ips := changingIPs(i, int(c.generations[i].Load()))
	return exactly(ips[:]...)
}

func TestQuestionsTellRightFromWrong(t *testing.T) {
	answer := func(ips ...netip.Addr) *dns.Msg {
		m := new(dns.Msg).SetQuestion("x.", dns.TypeA)
		for _, ip := range ips {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: "x.", Rrtype: dns.TypeA}, A: ip.AsSlice()})
		}
		return m
	}
	old, now := changingIPs(7, 3), changingIPs(7, 4)
	for name, c := range map[string]struct {
		check func(*dns.Msg) error
		reply *dns.Msg
		right bool
	}{
		"the address":            {exactly(stableIP(1)), answer(stableIP(1)), true},
		"another's":              {exactly(stableIP(1)), answer(stableIP(2)), false},
		"one too many":           {exactly(stableIP(1)), answer(stableIP(1), stableIP(2)), false},
		"twice":                  {exactly(stableIP(1)), answer(stableIP(1), stableIP(1)), false},
		"none":                   {exactly(stableIP(1)), answer(), false},
		"a generation":           {oneGeneration(7), answer(old[:]...), true},
		"a mixture of two":       {oneGeneration(7), answer(old[0], old[1], now[2]), false},
		"another's generation":   {oneGeneration(8), answer(old[:]...), false},
		"no name, without a SOA": {nameError, new(dns.Msg).SetRcode(new(dns.Msg).SetQuestion("x.", dns.TypeA), dns.RcodeNameError), false},
	} {
		if err := c.check(c.reply); (err == nil) != c.right {
			t.Errorf("%s: %v", name, err)
		}
	}
}
