package express

import (
	"time"

	"github.com/coredns/caddy"
)

// grace is how long an instance that a reload replaces waits at most for its queries, as in dnsserver.Server.
const grace = 5 * time.Second

// retireFirst registers retire to run first when the Corefile's instance ends, before any plugin shuts down. caddy shuts plugins down in
// the order of directives. shed is one of the first, and then drops the replies of queries that are still in the chain.
func retireFirst(c *caddy.Controller, p *Plan) {
	for _, instance := range caddy.Instances() {
		if planOf(instance) == p {
			instance.OnShutdown = append([]func() error{p.retire}, instance.OnShutdown...)
			return
		}
	}
	c.OnShutdown(p.retire)
}

// retire ends the plan after a reload, when CoreDNS's own servers have stopped. Sockets that the new Corefile wants belong to its servers
// by then; all others are closed. Queries that the chain is processing still get their replies.
func (p *Plan) retire() error {
	for _, instance := range caddy.Instances() {
		if planOf(instance) == p {
			return nil // not a reload: the process ends
		}
	}
	all.release(wanted)
	await(func() bool {
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, l := range all.byAddr {
			if l.target.Load().plan == p {
				return false // the new server is about to attach
			}
		}
		for _, t := range p.used {
			if t.inChain.Load() > 0 {
				return false
			}
		}
		return true
	})
	return nil
}

// await waits until done is true, for as long as grace at most.
func await(done func() bool) {
	for deadline := time.Now().Add(grace); !done() && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
}

// planOf returns the plan of an instance, or nil.
func planOf(instance *caddy.Instance) *Plan {
	instance.StorageMu.RLock()
	defer instance.StorageMu.RUnlock()
	p, _ := instance.Storage[planKey{}].(*Plan)
	return p
}
