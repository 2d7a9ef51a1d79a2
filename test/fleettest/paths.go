package fleettest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/clusterset/clusterset/internal/beacon"
	"github.com/clusterset/clusterset/test/faultproxy"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/ownnet"
)

// Paths are the ways from each agent to the beacons of the other members that have some (Spec.Beacons). Each way can be disturbed alone. Its
// methods are safe for concurrent use.
//
// A member has two beacons: its agent's, and one that goes on answering while the agent is down, as another replica's does. Agents dial no
// loopback addresses (D44 of docs/spec/data-path.md), so the beacons are at the address of ownnet, which the package's tests run in.
type Paths struct {
	agents   map[string]*fleet.Program
	gates    map[string][]*faultproxy.Gate // by the member that they lead to
	standbys []net.Listener

	mu  sync.Mutex
	cut map[way]bool
}

type way struct{ from, to string }

// pave makes the beacons of the members that are to have some. It returns nil if none is.
func pave(members []*Member) (*Paths, error) {
	if !slices.ContainsFunc(members, func(m *Member) bool { return m.Spec.Beacons }) {
		return nil, nil
	}
	p := &Paths{agents: map[string]*fleet.Program{}, gates: map[string][]*faultproxy.Gate{}, cut: map[way]bool{}}
	for _, m := range members {
		p.agents[m.Spec.Name] = m.Agent
	}
	for i, m := range members {
		if m.Spec.Beacons {
			if err := p.lead(m, uint64(i)); err != nil {
				p.Close()
				return nil, fmt.Errorf("beacons of %s: %w", m.Spec.Name, err)
			}
		}
	}
	return p, nil
}

// lead makes the beacons of a member, and the gates to them.
func (p *Paths) lead(m *Member, seed uint64) error {
	port, err := freeport.Find()
	if err != nil {
		return err
	}
	standby, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.standbys = append(p.standbys, standby)
	go func() { _ = beacon.Serve(context.Background(), standby, m.Spec.Name, "standby") }() // until it is closed
	m.Base.Beacon = "127.0.0.1:" + port
	for _, target := range []string{m.Base.Beacon, standby.Addr().String()} {
		g, err := faultproxy.NewGate(netip.AddrPortFrom(ownnet.Address, 0).String(), target, seed, p.dialler)
		if err != nil {
			return err
		}
		p.gates[m.Spec.Name] = append(p.gates[m.Spec.Name], g)
		m.Base.BeaconAddresses = append(m.Base.BeaconAddresses, g.Addr())
	}
	return nil
}

// dialler returns the member whose agent opened a connection, or "" if none did.
func (p *Paths) dialler(conn net.Conn) string {
	processes := map[string]int{}
	for name, agent := range p.agents {
		processes[name] = agent.PID()
	}
	return owner(processes, conn)
}

// Network returns the network of all beacons.
func (p *Paths) Network() string {
	return netip.PrefixFrom(ownnet.Address, ownnet.Address.BitLen()).String()
}

// Cut puts the way from a member to another into a condition in which it can't reach the other.
func (p *Paths) Cut(from, to string, c faultproxy.Condition) {
	p.mu.Lock()
	p.cut[way{from, to}] = true
	p.mu.Unlock()
	p.Disturb(from, to, c)
}

// Disturb puts the way into a condition that leaves its verdict as it is.
func (p *Paths) Disturb(from, to string, c faultproxy.Condition) {
	for _, g := range p.gates[to] {
		g.From(from).Set(c)
	}
}

// Mend makes the way a good one.
func (p *Paths) Mend(from, to string) {
	p.mu.Lock()
	delete(p.cut, way{from, to})
	p.mu.Unlock()
	p.Disturb(from, to, faultproxy.Condition{})
}

// MendAll makes all ways good ones.
func (p *Paths) MendAll() {
	for from := range p.agents {
		for to := range p.gates {
			p.Mend(from, to)
		}
	}
}

// IsCut reports whether a member can't reach another. A nil *Paths has no such members.
func (p *Paths) IsCut(from, to string) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut[way{from, to}]
}

// Disturbed returns how often the condition of a way has made a difference so far.
func (p *Paths) Disturbed(from, to string) (n int) {
	for _, g := range p.gates[to] {
		n += g.From(from).Disturbed()
	}
	return n
}

// Close ends all beacons and connections.
func (p *Paths) Close() {
	for _, gates := range p.gates {
		for _, g := range gates {
			g.Close()
		}
	}
	for _, l := range p.standbys {
		_ = l.Close()
	}
}
