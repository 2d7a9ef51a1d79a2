package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
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

	{group: "member's API server", name: "SIGTERM, started again", promise: noChange, does: away(its, (*kube.ControlPlane).StopAPIServer)},
	{group: "member's API server", name: "SIGKILL, started again", promise: noChange, does: away(its, (*kube.ControlPlane).KillAPIServer)},
	{group: "member's API server", name: "SIGSTOP, SIGCONT", promise: noChange, does: paused(its, (*kube.ControlPlane).PauseAPIServer)},
	{group: "member's etcd", name: "SIGKILL, started again", promise: noChange, does: away(its, (*kube.ControlPlane).KillEtcd)},
	{group: "member's etcd", name: "SIGSTOP, SIGCONT", promise: noChange, does: paused(its, (*kube.ControlPlane).PauseEtcd)},

	{group: "hub's API server", name: "SIGTERM, started again", promise: noChange, does: away(hubs, (*kube.ControlPlane).StopAPIServer)},
	{group: "hub's API server", name: "SIGKILL, started again", promise: noChange, does: away(hubs, (*kube.ControlPlane).KillAPIServer)},
	{group: "hub's API server", name: "SIGSTOP, SIGCONT", promise: noChange, does: paused(hubs, (*kube.ControlPlane).PauseAPIServer)},
	{group: "hub's API server", name: "away for longer than it takes to expire", promise: noChange, silent: true, does: func(c *run) {
		c.Hub.Plane.KillAPIServer()
		c.writesSilenced(&c.Hub.Cluster)
		c.churn(5)
		c.watch(expireAfter + c.between(0, 4*time.Second))
		c.Hub.StartAPIServer()
		c.watch(suspectAfter)
	}},
	{group: "hub's etcd", name: "SIGKILL, started again", promise: noChange, does: away(hubs, (*kube.ControlPlane).KillEtcd)},
	{group: "hub's etcd", name: "SIGSTOP, SIGCONT", promise: noChange, does: paused(hubs, (*kube.ControlPlane).PauseEtcd)},
}

const (
	// goesAndReturns is the promise for a cluster that falls silent.
	goesAndReturns = "the cluster's endpoints rank last (Suspect), go (Expired), and are back with its first heartbeat; no other answer changes"
	// silentOnly is the promise for a DNS server that is down.
	silentOnly = "that server is silent or answers SERVFAIL, never anything wrong; no answer changes elsewhere"
)

func (c *run) agentSilenced() { c.silenced("the agent", c.victim.Metrics.Up) }
func (c *run) hubSilenced()   { c.silenced("the hub process", c.Hub.Metrics.Up) }

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

func its(c *run) *fleettest.Cluster  { return &c.victim.Cluster }
func hubs(c *run) *fleettest.Cluster { return &c.Hub.Cluster }

// away returns a fault in which a part of a control plane ends and is started again, and paused one in which it stands still.
func away(of func(*run) *fleettest.Cluster, end func(*kube.ControlPlane)) func(*run) {
	return func(c *run) {
		end(of(c).Plane)
		c.without(of(c), 0, 8*time.Second)
	}
}

func paused(of func(*run) *fleettest.Cluster, pause func(*kube.ControlPlane) error) func(*run) {
	return func(c *run) {
		c.must(pause(of(c).Plane))
		c.without(of(c), 2*time.Second, 15*time.Second)
	}
}

// without waits until nobody can write to a cluster, and then some time until its control plane goes on.
func (c *run) without(of *fleettest.Cluster, least, most time.Duration) {
	c.Helper()
	c.writesSilenced(of)
	c.churn(5)
	c.watch(c.between(least, most))
	c.resumePlane(of)
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

// touched records traffic that felt the current fault. A fault that nothing felt shows nothing, so inject fails then.
func (c *run) touched(format string, args ...any) {
	c.felt = append(c.felt, fmt.Sprintf(format, args...))
}

// links records what the links' conditions have done since the fault began.
func (c *run) links() {
	if n := c.wires.disturbed() - c.disturbed; n > 0 {
		c.touched("%d pieces of data or connections were held up, broken or refused", n)
	}
}

// silenced waits until ask gets no answer within a second.
func (c *run) silenced(who string, ask func(context.Context) error) {
	c.Helper()
	c.until(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if ask(ctx) == nil {
			return fmt.Errorf("%s still answers", who)
		}
		return nil
	})
	c.touched("%s didn't answer", who)
}

// dnsSilenced waits until the victim's DNS server doesn't answer any more.
func (c *run) dnsSilenced() {
	c.Helper()
	c.silenced("the DNS server", func(ctx context.Context) error {
		_, err := askOnce(ctx, c.victim.DNS.Addr(), question{"clusterset.local", "SOA"}, time.Second)
		return err
	})
}

// writesSilenced waits until users can't write to a cluster.
func (c *run) writesSilenced(of *fleettest.Cluster) {
	c.Helper()
	c.silenced("a user who writes to the API server", func(ctx context.Context) error { return stir(ctx, of) })
}

// stir changes an annotation of the namespaces lab and default, so that all clients that watch namespaces get an event.
func stir(ctx context.Context, of *fleettest.Cluster) error {
	var namespaces corev1.NamespaceList
	if err := of.Client.List(ctx, &namespaces); err != nil {
		return err
	}
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; strings.HasPrefix(ns.Name, "lab") || ns.Name == "default" {
			change := fmt.Sprintf(`{"metadata":{"annotations":{"clusterset-test/stirred":%q}}}`, time.Now().Format(time.RFC3339Nano))
			if err := of.Client.Patch(ctx, ns, client.RawPatch("application/merge-patch+json", []byte(change))); err != nil {
				return err
			}
		}
	}
	return nil
}
