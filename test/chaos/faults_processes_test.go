package chaos

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/clusterset/clusterset/test/fleettest"
)

// processFaults happen to processes and the machines they run on.
var processFaults = []fault{
	{group: "agent", name: "SIGTERM, started again", promise: noChange, does: func(c *run) {
		c.victim.StopAgent()
		c.agentSilenced()
		c.churn(5)
		c.watch(c.between(0, 4*time.Second))
		c.victim.StartAgent()
	}},
	{group: "agent", name: "SIGKILL, started again", promise: noChange, does: func(c *run) {
		for range 1 + c.IntN(3) {
			c.victim.KillAgent()
			c.agentSilenced()
			c.churn(3)
			c.victim.StartAgent()
			c.watch(c.between(0, 3*time.Second))
		}
	}},
	{group: "agent", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *run) {
		c.victim.Agent.Pause()
		c.agentSilenced()
		c.churn(5)
		c.watch(c.between(2*time.Second, 15*time.Second))
		c.victim.Agent.Resume()
	}},
	{group: "agent", name: "SIGKILL, gone for long", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.victim.KillAgent()
		c.fallsSilent()
		c.churn(5)
		c.victim.StartAgent()
	}},
	{group: "agent", name: "SIGSTOP for long", promise: goesAndReturns, silent: true, does: func(c *run) {
		c.victim.Agent.Pause()
		c.fallsSilent()
		c.victim.Agent.Resume()
	}},

	{group: "hub process", name: "SIGTERM, started again", promise: noChange, does: func(c *run) {
		c.Hub.Process.Stop()
		c.hubSilenced()
		c.Hub.Restart(c.Hub.Base.Flags...)
		c.churn(3)
	}},
	{group: "hub process", name: "SIGKILL, started again", promise: noChange, does: func(c *run) {
		for range 1 + c.IntN(3) {
			c.Hub.Kill()
			c.hubSilenced()
			c.churn(3)
			c.Hub.Start(c.Hub.Base.Flags...)
			c.watch(c.between(0, 3*time.Second))
		}
	}},
	{group: "hub process", name: "SIGSTOP for longer than it takes to expire", promise: noChange, silent: true, does: func(c *run) {
		c.Hub.Process.Pause()
		c.hubSilenced()
		c.watch(expireAfter + c.between(0, 4*time.Second))
		c.Hub.Process.Resume()
		c.watch(suspectAfter)
	}},

	{group: "DNS server", name: "SIGTERM, started again", promise: silentOnly, does: func(c *run) { c.restartDNS(func() { c.victim.DNS.Stop() }) }},
	{group: "DNS server", name: "SIGKILL, started again", promise: silentOnly, does: func(c *run) { c.restartDNS(c.victim.DNS.Kill) }},
	{group: "DNS server", name: "SIGSTOP, SIGCONT", promise: silentOnly, does: func(c *run) {
		c.prober.excuse(c.victimServer(), true)
		c.victim.DNS.Pause()
		c.dnsSilenced()
		c.churn(5)
		c.watch(c.between(2*time.Second, 15*time.Second))
		c.victim.DNS.Resume()
	}},

	{group: "member's API server", name: "SIGTERM, started again", promise: noChange, does: func(c *run) { c.restartAPIServer(&c.victim.Cluster, c.victim.Plane.StopAPIServer) }},
	{group: "member's API server", name: "SIGKILL, started again", promise: noChange, does: func(c *run) { c.restartAPIServer(&c.victim.Cluster, c.victim.Plane.KillAPIServer) }},
	{group: "member's API server", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *run) { c.pauseAPIServer(&c.victim.Cluster) }},
	{group: "member's etcd", name: "SIGKILL, started again", promise: noChange, does: func(c *run) { c.restartEtcd(&c.victim.Cluster) }},
	{group: "member's etcd", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *run) { c.pauseEtcd(&c.victim.Cluster) }},

	{group: "hub's API server", name: "SIGTERM, started again", promise: noChange, does: func(c *run) { c.restartAPIServer(&c.Hub.Cluster, c.Hub.Plane.StopAPIServer) }},
	{group: "hub's API server", name: "SIGKILL, started again", promise: noChange, does: func(c *run) { c.restartAPIServer(&c.Hub.Cluster, c.Hub.Plane.KillAPIServer) }},
	{group: "hub's API server", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *run) { c.pauseAPIServer(&c.Hub.Cluster) }},
	{group: "hub's API server", name: "away for longer than it takes to expire", promise: noChange, silent: true, does: func(c *run) {
		c.Hub.Plane.KillAPIServer()
		c.writesSilenced(&c.Hub.Cluster)
		c.churn(5)
		c.watch(expireAfter + c.between(0, 4*time.Second))
		c.Hub.StartAPIServer()
		c.watch(suspectAfter)
	}},
	{group: "hub's etcd", name: "SIGKILL, started again", promise: noChange, does: func(c *run) { c.restartEtcd(&c.Hub.Cluster) }},
	{group: "hub's etcd", name: "SIGSTOP, SIGCONT", promise: noChange, does: func(c *run) { c.pauseEtcd(&c.Hub.Cluster) }},
}

const (
	// goesAndReturns is the promise for a cluster that falls silent.
	goesAndReturns = "the cluster's endpoints rank last (Suspect), go (Expired), and are back with its first heartbeat; no other answer changes"
	// silentOnly is the promise for a DNS server that is down.
	silentOnly = "that server is silent or answers SERVFAIL, never anything wrong; no answer changes elsewhere"
)

func (c *run) agentSilenced() { c.metricsSilenced("the agent", c.victim.Metrics) }
func (c *run) hubSilenced()   { c.metricsSilenced("the hub process", c.Hub.Metrics) }

func (c *run) restartDNS(end func()) {
	c.Helper()
	c.prober.excuse(c.victimServer(), true)
	for range 1 + c.IntN(3) {
		end()
		c.dnsSilenced()
		c.churn(3)
		c.victim.DNS.Start()
		c.prober.moved(c.victimServer(), c.victim.DNS.Addr())
		c.watch(c.between(0, 2*time.Second))
	}
}

func (c *run) restartAPIServer(of *fleettest.Cluster, end func()) {
	c.Helper()
	end()
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(0, 8*time.Second))
	if err := of.Plane.StartAPIServer(context.Background()); err != nil {
		c.Fatal(err)
	}
}

func (c *run) pauseAPIServer(of *fleettest.Cluster) {
	c.Helper()
	c.must(of.Plane.PauseAPIServer())
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(2*time.Second, 15*time.Second))
	c.must(of.Plane.ResumeAPIServer())
}

func (c *run) restartEtcd(of *fleettest.Cluster) {
	c.Helper()
	of.Plane.KillEtcd()
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(0, 8*time.Second))
	c.must(of.Plane.StartEtcd(context.Background()))
}

func (c *run) pauseEtcd(of *fleettest.Cluster) {
	c.Helper()
	c.must(of.Plane.PauseEtcd())
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(2*time.Second, 15*time.Second))
	c.must(of.Plane.ResumeEtcd())
}

// resumePlane starts the stopped parts of a control plane and continues the paused ones.
func (c *run) resumePlane(of *fleettest.Cluster) {
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

func (c *run) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}
