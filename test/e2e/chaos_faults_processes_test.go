package e2e

import (
	"context"
	"errors"
	"os"
	"time"
)

// processFaults happen to processes and the machines they run on.
var processFaults = []fault{
	{group: "agent", name: "SIGTERM, started again", promise: noChange, does: func(c *chaos) {
		c.victim.stopAgent()
		c.agentSilenced()
		c.churn(5)
		c.watch(c.between(0, 4*time.Second))
		c.victim.startAgent()
	}},
	{group: "agent", name: "SIGKILL, started again", promise: noChange, does: func(c *chaos) {
		for range 1 + c.IntN(3) {
			c.victim.killAgent()
			c.agentSilenced()
			c.churn(3)
			c.victim.startAgent()
			c.watch(c.between(0, 3*time.Second))
		}
	}},
	{group: "agent", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *chaos) {
		c.victim.agent.Pause()
		c.agentSilenced()
		c.churn(5)
		c.watch(c.between(2*time.Second, 15*time.Second))
		c.victim.agent.Resume()
	}},
	{group: "agent", name: "SIGKILL, gone for long", promise: goesAndReturns, short: true, silent: true, does: func(c *chaos) {
		c.victim.killAgent()
		c.fallsSilent()
		c.churn(5)
		c.victim.startAgent()
	}},
	{group: "agent", name: "SIGSTOP for long", promise: goesAndReturns, silent: true, does: func(c *chaos) {
		c.victim.agent.Pause()
		c.fallsSilent()
		c.victim.agent.Resume()
	}},

	{group: "hub process", name: "SIGTERM, started again", promise: noChange, does: func(c *chaos) {
		c.hub.process.Stop()
		c.hubSilenced()
		c.hub.restart(c.hub.base.Flags...)
		c.churn(3)
	}},
	{group: "hub process", name: "SIGKILL, started again", promise: noChange, does: func(c *chaos) {
		for range 1 + c.IntN(3) {
			c.hub.kill()
			c.hubSilenced()
			c.churn(3)
			c.hub.start(c.hub.base.Flags...)
			c.watch(c.between(0, 3*time.Second))
		}
	}},
	{group: "hub process", name: "SIGSTOP for longer than it takes to expire", promise: noChange, silent: true, does: func(c *chaos) {
		c.hub.process.Pause()
		c.hubSilenced()
		c.watch(chaosExpire + c.between(0, 4*time.Second))
		c.hub.process.Resume()
		c.watch(chaosSuspect)
	}},

	{group: "DNS server", name: "SIGTERM, started again", promise: silentOnly, does: func(c *chaos) { c.restartDNS(func() { c.victim.dns.Stop() }) }},
	{group: "DNS server", name: "SIGKILL, started again", promise: silentOnly, short: true, does: func(c *chaos) { c.restartDNS(c.victim.dns.kill) }},
	{group: "DNS server", name: "SIGSTOP, SIGCONT", promise: silentOnly, does: func(c *chaos) {
		c.prober.excuse(c.victimServer(), true)
		c.victim.dns.Pause()
		c.dnsSilenced()
		c.churn(5)
		c.watch(c.between(2*time.Second, 15*time.Second))
		c.victim.dns.Resume()
	}},

	{group: "member's API server", name: "SIGTERM, started again", promise: noChange, does: func(c *chaos) { c.restartAPIServer(&c.victim.cluster, c.victim.Plane.StopAPIServer) }},
	{group: "member's API server", name: "SIGKILL, started again", promise: noChange, does: func(c *chaos) { c.restartAPIServer(&c.victim.cluster, c.victim.Plane.KillAPIServer) }},
	{group: "member's API server", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *chaos) { c.pauseAPIServer(&c.victim.cluster) }},
	{group: "member's etcd", name: "SIGKILL, started again", promise: noChange, does: func(c *chaos) { c.restartEtcd(&c.victim.cluster) }},
	{group: "member's etcd", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *chaos) { c.pauseEtcd(&c.victim.cluster) }},

	{group: "hub's API server", name: "SIGTERM, started again", promise: noChange, does: func(c *chaos) { c.restartAPIServer(&c.hub.cluster, c.hub.Plane.StopAPIServer) }},
	{group: "hub's API server", name: "SIGKILL, started again", promise: noChange, does: func(c *chaos) { c.restartAPIServer(&c.hub.cluster, c.hub.Plane.KillAPIServer) }},
	{group: "hub's API server", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *chaos) { c.pauseAPIServer(&c.hub.cluster) }},
	{group: "hub's API server", name: "away for longer than it takes to expire", promise: noChange, silent: true, does: func(c *chaos) {
		c.hub.Plane.KillAPIServer()
		c.writesSilenced(&c.hub.cluster)
		c.churn(5)
		c.watch(chaosExpire + c.between(0, 4*time.Second))
		c.hub.startAPIServer()
		c.watch(chaosSuspect)
	}},
	{group: "hub's etcd", name: "SIGKILL, started again", promise: noChange, does: func(c *chaos) { c.restartEtcd(&c.hub.cluster) }},
	{group: "hub's etcd", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *chaos) { c.pauseEtcd(&c.hub.cluster) }},
}

const (
	// goesAndReturns is the promise for a cluster that falls silent.
	goesAndReturns = "the cluster's endpoints rank last (Suspect), go (Expired), and are back with its first heartbeat; no other answer changes"
	// silentOnly is the promise for a DNS server that is down.
	silentOnly = "that server is silent or answers SERVFAIL, never anything wrong; no answer changes elsewhere"
)

func (c *chaos) agentSilenced() { c.metricsSilenced("the agent", c.victim.Metrics) }
func (c *chaos) hubSilenced()   { c.metricsSilenced("the hub process", c.hub.Metrics) }

func (c *chaos) restartDNS(end func()) {
	c.Helper()
	c.prober.excuse(c.victimServer(), true)
	for range 1 + c.IntN(3) {
		end()
		c.dnsSilenced()
		c.churn(3)
		c.victim.dns.start()
		c.prober.moved(c.victimServer(), c.victim.dns.Addr())
		c.watch(c.between(0, 2*time.Second))
	}
}

func (c *chaos) restartAPIServer(of *cluster, end func()) {
	c.Helper()
	end()
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(0, 8*time.Second))
	if err := of.Plane.StartAPIServer(context.Background()); err != nil {
		c.Fatal(err)
	}
}

func (c *chaos) pauseAPIServer(of *cluster) {
	c.Helper()
	c.must(of.Plane.PauseAPIServer())
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(2*time.Second, 15*time.Second))
	c.must(of.Plane.ResumeAPIServer())
}

func (c *chaos) restartEtcd(of *cluster) {
	c.Helper()
	of.Plane.KillEtcd()
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(0, 8*time.Second))
	c.must(of.Plane.StartEtcd(context.Background()))
}

func (c *chaos) pauseEtcd(of *cluster) {
	c.Helper()
	c.must(of.Plane.PauseEtcd())
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(2*time.Second, 15*time.Second))
	c.must(of.Plane.ResumeEtcd())
}

// resumePlane starts the stopped parts of a control plane and continues the paused ones.
func (c *chaos) resumePlane(of *cluster) {
	c.Helper()
	ctx := context.Background()
	for _, signal := range []func() error{of.Plane.ResumeEtcd, of.Plane.ResumeAPIServer} {
		if err := signal(); !errors.Is(err, os.ErrProcessDone) {
			c.must(err)
		}
	}
	c.must(of.Plane.StartEtcd(ctx))
	c.must(of.Plane.StartAPIServer(ctx))
}

func (c *chaos) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}
