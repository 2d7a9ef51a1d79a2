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

// conn is a client's connection and its continuation to the server.
type conn struct {
	client net.Conn
	done   chan struct{} // closed when the connection is over

	mu     sync.Mutex
	server net.Conn // nil until connected
	over   bool
}

// reset ends both halves with a TCP reset.
func (c *conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	close(c.done)
	for _, half := range []net.Conn{c.client, c.server} {
		if tcp, ok := half.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

// continues stores the server's half. If the connection is already over, it closes that half and returns false.
func (c *conn) continues(server net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		_ = server.Close()
		return false
	}
	c.server = server
	return true
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
	go l.accept()
	return l, nil
}

func newLink(target string, seed uint64) *Link {
	return &Link{
		target: target, changed: make(chan struct{}), conns: map[*conn]bool{},
		random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // repeatable on purpose
	}
}

// Addr returns the address that clients connect to, "127.0.0.1:port".
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Close ends the link and its connections.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if l.listener != nil {
		_ = l.listener.Close()
	}
	l.Reset()
}

// Set changes the link's condition.
func (l *Link) Set(c Condition) {
	l.mu.Lock()
	l.condition = c
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	if c.Refused {
		l.disturb(l.reset())
	}
}

// Lead redirects the link to another server, and resets the connections to the previous one.
func (l *Link) Lead(target string) {
	l.mu.Lock()
	same := l.target == target
	l.target = target
	l.mu.Unlock()
	if !same {
		l.Reset()
	}
}

// Reset breaks every connection.
func (l *Link) Reset() { l.reset() }

// reset breaks every connection and returns how many there were.
func (l *Link) reset() int {
	l.mu.Lock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		all = append(all, c)
	}
	l.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
	return len(all)
}

// Disturbed returns how often the link's condition has made a difference so far: a connection was refused or broken, or a piece
// of data came late or never. A condition that is set while nobody uses the link makes no difference.
func (l *Link) Disturbed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.disturbed
}

func (l *Link) disturb(times int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disturbed += times
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.take(client)
	}
}

// take begins to carry a client's connection.
func (l *Link) take(client net.Conn) {
	c := &conn{client: client, done: make(chan struct{})}
	l.mu.Lock()
	l.conns[c] = true
	closed := l.closed
	l.mu.Unlock()
	if closed {
		c.reset()
	}
	go l.carry(c)
}

// carry connects to the server as soon as the link's condition allows it, and carries both directions.
func (l *Link) carry(c *conn) {
	defer func() {
		c.reset()
		l.mu.Lock()
		delete(l.conns, c)
		l.mu.Unlock()
	}()
	condition, ok := l.await(c, Condition.cut)
	if condition.Refused {
		l.disturb(1)
	}
	if !ok || condition.Refused {
		return
	}
	l.mu.Lock()
	target := l.target
	l.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, 10*time.Second)
	if err != nil {
		return // resets the client's half, which is as close to a refusal as possible
	}
	if !c.continues(server) {
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
		if !sleepUntil(p.due, c.done) {
			break
		}
		tooLarge := func(c Condition) bool { return c.Largest > 0 && len(p.data) > c.Largest }
		if _, ok := l.await(c, func(c Condition) bool { return held(c) || tooLarge(c) }); !ok {
			break
		}
		if _, err := to.Write(p.data); err != nil {
			c.reset()
		}
	}
	for range pieces { // until the reader has ended, which a reset causes
	}
	if tcp, ok := to.(*net.TCPConn); ok && proper {
		_ = tcp.CloseWrite()
		return
	}
	c.reset()
}

// read reads from one half and queues the pieces for the other.
func (l *Link) read(c *conn, from net.Conn, pieces chan<- piece) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			condition, stall, reset := l.chance()
			if reset {
				return errReset
			}
			select {
			case pieces <- piece{time.Now().Add(condition.Delay + stall), slices.Clone(buffer[:n])}:
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
		l.mu.Lock()
		condition, changed := l.condition, l.changed
		l.mu.Unlock()
		if condition.Refused || !while(condition) {
			return condition, true
		}
		if !waited {
			l.disturb(1)
		}
		select {
		case <-changed:
		case <-c.done:
			return condition, false
		}
	}
}

// chance decides what happens to a piece.
func (l *Link) chance() (condition Condition, stall time.Duration, reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.condition.Stalls; n > 0 && l.random.IntN(1000) < n {
		stall = 200*time.Millisecond + time.Duration(l.random.Int64N(int64(2800*time.Millisecond)))
	}
	reset = l.condition.Resets > 0 && l.random.IntN(1000) < l.condition.Resets
	if l.condition.Delay > 0 || stall > 0 || reset {
		l.disturbed++
	}
	return l.condition, stall, reset
}

func sleepUntil(due time.Time, done <-chan struct{}) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
