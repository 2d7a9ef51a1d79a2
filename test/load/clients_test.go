package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// patience is how long a client waits for an answer. Resolvers wait five seconds. On a machine that runs other programs an answer
// may take longer, which isn't the server's fault. The test reports the slowest answer.
const patience = 30 * time.Second

// mix is the number of clients for each network.
var mix = map[string]int{"udp": 12, "tcp": 4, "tcp-tls": 4}

// tally counts what clients saw.
type tally struct {
	answered int // correctly
	lost     int // without an answer
	again    int // retries after the server closed the connection, as RFC 7766 section 6.2.4 asks of clients
	wrong    []string
	slowest  time.Duration
}

func (a *tally) add(b tally) {
	a.answered += b.answered
	a.lost += b.lost
	a.again += b.again
	a.wrong = append(a.wrong, b.wrong...)
	a.slowest = max(a.slowest, b.slowest)
}

func (a tally) String() string {
	return fmt.Sprintf("answered rightly %d, wrong %d, lost %d, asked again %d, slowest %s",
		a.answered, len(a.wrong), a.lost, a.again, a.slowest.Round(time.Millisecond))
}

// client sends one query after the other over one socket or connection.
type client struct {
	server  *server
	network string
	rand    *rand.Rand
	conn    *dns.Conn
	tally   tally
}

// ask makes all clients of the mix send queries until the context ends, either without a pause or perSecond queries in total.
func (s *server) ask(ctx context.Context, perSecond float64) (map[string]tally, error) {
	before, err := s.drops()
	if err != nil {
		return nil, err
	}
	var wait sync.WaitGroup
	var clients []*client
	for network, n := range mix {
		for range n {
			clients = append(clients, &client{server: s, network: network, rand: rand.New(rand.NewPCG(1, uint64(len(clients))))})
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
	sums := map[string]tally{}
	for _, c := range clients {
		c.hangUp()
		sum := sums[c.network]
		sum.add(c.tally)
		sums[c.network] = sum
	}
	udp := sums["udp"]
	udp.lost -= min(udp.lost, max(0, after-before)) // dropped by the sockets, not by the server
	sums["udp"] = udp
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
func (c *client) one() {
	q, began := draw(c.rand), time.Now()
	reply, err := c.exchange(q.name)
	c.tally.slowest = max(c.tally.slowest, time.Since(began))
	if err != nil {
		c.tally.lost++
	} else if err = q.check(reply); err == nil {
		c.tally.answered++
	}
	if err != nil && (reply != nil || c.network != "udp") { // the kernel may have dropped a packet
		c.tally.wrong = append(c.tally.wrong, fmt.Sprintf("%s %s: %v", c.network, q.name, err))
	}
}

// exchange asks for A over the client's connection. If the server closes it, exchange retries over a new one, three times at most.
func (c *client) exchange(name string) (reply *dns.Msg, err error) {
	for again := 0; ; again++ {
		reply, err = c.exchangeOnce(name)
		if err == nil || c.network == "udp" { // the socket is kept for its count of drops
			return reply, err
		}
		c.hangUp()
		if timeout := net.Error(nil); again == 3 || errors.As(err, &timeout) && timeout.Timeout() {
			return nil, err
		}
		c.tally.again++
	}
}

func (c *client) exchangeOnce(name string) (reply *dns.Msg, err error) {
	if c.conn == nil {
		addr := c.server.plain
		if c.network == "tcp-tls" {
			addr = c.server.tls
		}
		dialler := dns.Client{Net: c.network, DialTimeout: patience, TLSConfig: &tls.Config{RootCAs: c.server.trusted, MinVersion: tls.VersionTLS13}}
		if c.conn, err = dialler.Dial(addr); err != nil {
			return nil, err
		}
	}
	query := new(dns.Msg).SetQuestion(name, dns.TypeA)
	if err := errors.Join(c.conn.SetDeadline(time.Now().Add(patience)), c.conn.WriteMsg(query)); err != nil {
		return nil, err
	}
	for {
		reply, err := c.conn.ReadMsg()
		if err != nil || reply.Id == query.Id && reply.Question[0].Name == name {
			return reply, err
		}
		// A late answer to a query that was given up.
	}
}

func (c *client) hangUp() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// question is a query with a check of its answer.
type question struct {
	name  string
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
	return question{fmt.Sprintf(format, i) + ".load.svc.clusterset.local.", check}
}

func nameError(reply *dns.Msg) error {
	if reply.Rcode != dns.RcodeNameError || len(reply.Answer) > 0 || len(reply.Ns) != 1 {
		return fmt.Errorf("want NXDOMAIN with a SOA, got %s", reply)
	}
	return nil
}

// addresses returns the sorted addresses of an answer.
func addresses(reply *dns.Msg) (all []netip.Addr) {
	for _, rr := range reply.Answer {
		if a, ok := rr.(*dns.A); ok {
			ip, _ := netip.AddrFromSlice(a.A.To4())
			all = append(all, ip)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all
}

// exactly accepts these sorted addresses.
func exactly(want ...netip.Addr) func(*dns.Msg) error {
	return func(reply *dns.Msg) error {
		if !slices.Equal(addresses(reply), want) {
			return fmt.Errorf("want %s, got %s", want, reply)
		}
		return nil
	}
}

// oneGeneration accepts the endpoints of any single generation of a changing service. An answer may be old by the time it is read,
// but it must never mix generations.
func oneGeneration(i int) func(*dns.Msg) error {
	return func(reply *dns.Msg) error {
		got := addresses(reply)
		if len(got) == 0 || !slices.Equal(got, changingIPs(i, (int(got[0].As4()[3])-1)/3)) {
			return fmt.Errorf("no generation of changing-%d: %s", i, reply)
		}
		return nil
	}
}
