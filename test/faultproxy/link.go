package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// Condition is the state of a link. The zero value is a good link.
type Condition struct {
	// Refused resets existing and new connections, like a host on which the server isn't running, or a firewall that rejects.
	Refused bool
	// ToServer and ToClient hold up all bytes in that direction, like a network that silently drops packets: the sender's kernel
	// keeps the bytes and sends them again when the direction is free. Meanwhile no new connection succeeds.
	ToServer, ToClient bool
	// Delay is how much later each byte arrives, in each direction.
	Delay time.Duration
	// Stalls is how many of a thousand pieces are held up for 0.2 s to 3 s, like a lost packet until it is sent again.
	Stalls int
	// Resets is how many of a thousand pieces break the connection.
	Resets int
	// Largest is the size in bytes of the largest pieces that arrive, if it isn't 0. Larger ones are held up in both directions, like on a
	// path that loses large packets and doesn't say so.
	Largest int
}

// cut reports whether new connections fail. A handshake needs both directions.
func (c Condition) cut() bool { return c.Refused || c.ToServer || c.ToClient }

// Link carries TCP connections to a server. Its methods are safe for concurrent use.
type Link struct {
	listener net.Listener // nil if a Gate listens

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced whenever the condition changes
	condition Condition
	target    string
	conns     map[*conn]bool
	random    *rand.Rand
	disturbed int
	closed    bool
}

// conn is a client's connection and its continuation to the server. The link's mutex guards it.
type conn struct {
	client, server net.Conn      // the server's is nil until connected
	done           chan struct{} // closed when the connection is over
}

// NewLink opens a link from a port of 127.0.0.1 to a "host:port". The link's random faults follow from the seed. The caller must
// close it.
func NewLink(target string, seed uint64) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open link to %s: %w", target, err)
	}
	l := newLink(target, seed)
	l.listener = listener
	go accept(listener, l.take)
	return l, nil
}

func newLink(target string, seed uint64) *Link {
	return &Link{
		target: target, changed: make(chan struct{}), conns: map[*conn]bool{},
		random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // repeatable on purpose
	}
}

// accept hands on all connections to a listener until it is closed.
func accept(listener net.Listener, take func(net.Conn)) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		take(client)
	}
}

// Addr returns the address that clients connect to, "127.0.0.1:port".
func (l *Link) Addr() string { return l.listener.Addr().String() }

func (l *Link) locked(do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do()
}

// Close ends the link and its connections.
func (l *Link) Close() {
	if l.listener != nil {
		_ = l.listener.Close()
	}
	l.locked(func() { l.closed = true })
	l.Reset()
}

// Set changes the link's condition.
func (l *Link) Set(c Condition) {
	l.locked(func() {
		l.condition = c
		close(l.changed)
		l.changed = make(chan struct{})
		if c.Refused {
			l.disturbed += len(l.conns)
		}
	})
	if c.Refused {
		l.Reset()
	}
}

// Lead redirects the link to another server, and resets the connections to the previous one.
func (l *Link) Lead(target string) {
	same := false
	l.locked(func() { l.target, same = target, l.target == target })
	if !same {
		l.Reset()
	}
}

// Reset breaks every connection.
func (l *Link) Reset() {
	l.locked(func() {
		for c := range l.conns {
			l.reset(c)
		}
	})
}

// reset ends both halves of a connection with a TCP reset.
func (l *Link) reset(c *conn) {
	if !l.conns[c] {
		return
	}
	delete(l.conns, c)
	close(c.done)
	for _, half := range []net.Conn{c.client, c.server} {
		if tcp, ok := half.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

// Disturbed returns how often the link's condition has made a difference so far: a connection was refused or broken, or a piece
// of data came late or never. A condition that is set while nobody uses the link makes no difference.
func (l *Link) Disturbed() (n int) {
	l.locked(func() { n = l.disturbed })
	return n
}

// take begins to carry a client's connection.
func (l *Link) take(client net.Conn) {
	c := &conn{client: client, done: make(chan struct{})}
	l.locked(func() {
		l.conns[c] = true
		if l.closed {
			l.reset(c)
		}
	})
	go l.carry(c)
}

// carry connects to the server as soon as the link's condition allows it, and carries both directions.
func (l *Link) carry(c *conn) {
	defer l.locked(func() { l.reset(c) }) // as close to a refusal as possible
	condition, ok := l.await(c, Condition.cut)
	if condition.Refused {
		l.locked(func() { l.disturbed++ })
	}
	if !ok || condition.Refused {
		return
	}
	target := ""
	l.locked(func() { target = l.target })
	server, err := net.DialTimeout("tcp", target, 10*time.Second)
	if err != nil {
		return
	}
	l.locked(func() { c.server, ok = server, l.conns[c] })
	if !ok { // it is over already
		_ = server.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(c, c.client, server, func(c Condition) bool { return c.ToServer }) })
	both.Go(func() { l.pump(c, server, c.client, func(c Condition) bool { return c.ToClient }) })
	both.Wait()
}

// piece is the result of one read, and the time when it is due at the other end.
type piece struct {
	due  time.Time
	data []byte
}

// pump carries one direction until it ends. It passes a proper end on. Any other end resets the whole connection.
func (l *Link) pump(c *conn, from, to net.Conn, held func(Condition) bool) {
	pieces := make(chan piece, 64)
	proper := false
	go func() {
		defer close(pieces)
		proper = errors.Is(l.read(c, from, pieces), io.EOF)
	}()
	for p := range pieces {
		select {
		case <-time.After(time.Until(p.due)):
		case <-c.done:
		}
		waits := func(of Condition) bool { return held(of) || of.Largest > 0 && len(p.data) > of.Largest }
		_, ok := l.await(c, waits)
		if ok {
			_, err := to.Write(p.data)
			ok = err == nil
		}
		if !ok {
			l.locked(func() { l.reset(c) }) // which ends the reader, too
		}
	}
	if tcp, ok := to.(*net.TCPConn); ok && proper {
		_ = tcp.CloseWrite()
		return
	}
	l.locked(func() { l.reset(c) })
}

// read reads from one half and queues the pieces for the other.
func (l *Link) read(c *conn, from net.Conn, pieces chan<- piece) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			late, reset := l.chance()
			if reset {
				return errReset
			}
			select {
			case pieces <- piece{time.Now().Add(late), slices.Clone(buffer[:n])}:
			case <-c.done:
				return errReset
			}
		}
		if err != nil {
			return err
		}
	}
}

var errReset = errors.New("the link has reset the connection")

// await waits while the predicate holds for the link's condition, unless that is Refused. ok is false if the connection has
// ended.
func (l *Link) await(c *conn, while func(Condition) bool) (condition Condition, ok bool) {
	for waited := false; ; waited = true {
		var changed chan struct{}
		l.locked(func() {
			condition, changed = l.condition, l.changed
			if !waited && !condition.Refused && while(condition) {
				l.disturbed++
			}
		})
		if condition.Refused || !while(condition) {
			return condition, true
		}
		select {
		case <-changed:
		case <-c.done:
			return condition, false
		}
	}
}

// chance decides what happens to a piece.
func (l *Link) chance() (late time.Duration, reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	late = l.condition.Delay
	if l.random.IntN(1000) < l.condition.Stalls {
		late += 200*time.Millisecond + time.Duration(l.random.Int64N(int64(2800*time.Millisecond)))
	}
	reset = l.random.IntN(1000) < l.condition.Resets
	if late > 0 || reset {
		l.disturbed++
	}
	return late, reset
}

// Gate is an address of a server that several clients use. Each client has a link of its own to the server, so that the way from one of
// them can be disturbed alone. Its methods are safe for concurrent use.
type Gate struct {
	listener net.Listener
	target   string
	seed     uint64

	mu    sync.Mutex
	links map[string]*Link
}

// NewGate listens at an address, and leads to a "host:port". client returns the name of the client that a connection comes from. The caller
// must close the Gate.
func NewGate(at, target string, seed uint64, client func(net.Conn) string) (*Gate, error) {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("open gate to %s: %w", target, err)
	}
	g := &Gate{listener: listener, target: target, seed: seed, links: map[string]*Link{}}
	go accept(listener, func(conn net.Conn) {
		go func() { g.From(client(conn)).take(conn) }()
	})
	return g, nil
}

// Addr returns the address that clients connect to.
func (g *Gate) Addr() string { return g.listener.Addr().String() }

// From returns a client's link.
func (g *Gate) From(client string) *Link {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.links[client] == nil {
		g.links[client] = newLink(g.target, g.seed+uint64(len(g.links)))
	}
	return g.links[client]
}

// Close ends all connections.
func (g *Gate) Close() {
	_ = g.listener.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, l := range g.links {
		l.Close()
	}
}
