package faultproxy

import (
	"fmt"
	"net"
	"sync"
)

// Gate is an address of a server that several clients use. Each client has a link of its own to the server, so that the way from one of
// them can be disturbed alone. Its methods are safe for concurrent use.
type Gate struct {
	listener net.Listener
	target   string
	seed     uint64
	client   func(net.Conn) string

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
	g := &Gate{listener: listener, target: target, seed: seed, client: client, links: map[string]*Link{}}
	go g.accept()
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

func (g *Gate) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return // closed
		}
		go func() { g.From(g.client(conn)).take(conn) }()
	}
}
