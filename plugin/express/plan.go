package express

import (
	"cmp"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/metrics"
	clog "github.com/coredns/coredns/plugin/pkg/log"
)

var log = clog.NewWithPlugin("clusterset")

// Plan has the addresses at which an instance of CoreDNS wants express paths. Each instance has its own.
type Plan struct {
	instance *caddy.Instance
	hidden   error              // why it can't have the sockets of its servers, nil if it can
	targets  map[string]*target // by address, nil where the express path is off
	stopped  bool
}

type planKey struct{}

// PlanOf returns the plan of the Corefile that c reads.
func PlanOf(c *caddy.Controller) *Plan {
	if p, ok := c.Get(planKey{}).(*Plan); ok {
		return p
	}
	p := &Plan{targets: map[string]*target{}, hidden: errors.New("this version of caddy doesn't call back after the last directive")}
	c.Set(planKey{}, p)
	wrapLater()
	c.OnStartup(func() error {
		i := slices.IndexFunc(caddy.Instances(), p.belongsTo)
		if i < 0 {
			return errors.New("express: the instance of this Corefile isn't known")
		}
		p.instance = caddy.Instances()[i]
		p.instance.SaveServer(lifecycle{plan: p}, nil)
		plans.Lock()
		defer plans.Unlock()
		plans.all = append(plans.all, p)
		return nil
	})
	return p
}

func (p *Plan) belongsTo(instance *caddy.Instance) bool {
	instance.StorageMu.RLock()
	defer instance.StorageMu.RUnlock()
	return instance.Storage[planKey{}] == p
}

// lifecycle is a server without sockets in the plan's instance: caddy starts it and stops it with the others.
type lifecycle struct {
	caddy.GracefulServer // nil: caddy calls no other method of a server without sockets
	plan                 *Plan
}

// Address implements [caddy.GracefulServer].
func (lifecycle) Address() string { return "the express path" }

// Serve implements [caddy.TCPServer]. The sockets of all servers are bound now.
func (l lifecycle) Serve(net.Listener) error {
	l.plan.show()
	return nil
}

// ServePacket implements [caddy.UDPServer].
func (lifecycle) ServePacket(net.PacketConn) error { return nil }

// Stop implements [caddy.Stopper].
func (l lifecycle) Stop() error {
	l.plan.stop()
	return nil
}

// plans are those of all instances that run or start. shown is the one whose state the gauges show.
var plans struct {
	sync.Mutex
	all   []*Plan
	shown *Plan
}

// show makes the gauges and the log show this plan from now on: it has the sockets.
func (p *Plan) show() {
	plans.Lock()
	defer plans.Unlock()
	if p.stopped {
		return
	}
	plans.shown = p
	showNone()
	for addr, t := range p.targets {
		enabled.WithLabelValues(addr).Set(0)
		if t == nil {
			continue
		}
		enabled.WithLabelValues(addr).Set(1)
		zones := t.answers.names()
		for _, zone := range zones {
			zonesEnabled.WithLabelValues(addr, zone).Set(1)
		}
		log.Infof("express: on at %s for %s", addr, strings.Join(zones, " "))
	}
}

func showNone() {
	enabled.Reset()
	zonesEnabled.Reset()
}

// stop ends the plan. Its servers are stopped after it.
func (p *Plan) stop() {
	plans.Lock()
	defer plans.Unlock()
	plans.all = slices.DeleteFunc(plans.all, func(other *Plan) bool { return other == p })
	if plans.shown == p {
		plans.shown = nil
		showNone()
	}
	p.stopped = true
}

// CloseAbandoned closes the sockets of instances that couldn't start. caddy leaves them open, where nobody reads them but the kernel may
// choose them for a part of all queries. Call it after a reload that failed.
func CloseAbandoned() {
	plans.Lock()
	defer plans.Unlock()
	plans.all = slices.DeleteFunc(plans.all, func(p *Plan) bool {
		if slices.Contains(caddy.Instances(), p.instance) {
			return false
		}
		servers := p.instance.Servers()
		for i := range servers {
			closeAbandoned[net.Listener](&servers[i], "listener")
			closeAbandoned[net.PacketConn](&servers[i], "packet")
		}
		return true
	})
}

func closeAbandoned[T io.Closer](s *caddy.ServerListener, name string) {
	if c, err := field[T](s, name); err != nil {
		log.Errorf("a socket of a Corefile that couldn't start stays open, and may get a share of the queries: %v", err)
	} else if any(*c) != nil {
		_ = (*c).Close()
	}
}

// Want plans an express path at an address, or none if a is nil. m is the block's metrics, nil for none. If there can be none, the log has the
// reason.
func (p *Plan) Want(addr string, a *Answers, m *metrics.Metrics) {
	p.targets[addr] = nil
	if a == nil {
		return
	}
	if err := cmp.Or(p.hidden, supported(addr)); err != nil {
		log.Warningf("express: off at %s: %v", addr, err)
		return
	}
	p.targets[addr] = &target{answers: a, metrics: m}
}

// target is the server that a socket belongs to.
type target struct {
	answers *Answers
	server  *dnsserver.Server
	metrics *metrics.Metrics // nil if the block has none
}

// target returns that of a server, nil if it has no express path.
func (p *Plan) target(s *dnsserver.Server) *target {
	t := p.targets[s.Addr]
	if t == nil {
		return nil
	}
	return &target{t.answers, s, t.metrics}
}
