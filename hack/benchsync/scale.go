package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/test/fleet"
)

// scale measures what a large cluster set costs one member. The other clusters are simulated: their records and heartbeats reach the hub as
// those of agents would.
func (b *bench) scale(ctx context.Context) error {
	w := newWorld(b.sizes, b.hub.Client)
	b.near.Agent.Kill()
	b.say("filling the hub: %d clusters export %d services of %d endpoints each, %d names in all",
		w.clusters-1, w.sizes.services, w.endpoints, len(w.services))
	if err := w.fill(ctx, b); err != nil {
		return err
	}
	return w.beating(ctx, func(ctx context.Context) error { return b.scaled(ctx, w) })
}

// scaled measures near after the hub is filled.
func (b *bench) scaled(ctx context.Context, w *world) error {
	if err := b.await(ctx, b.hub.Process, "the hub has heard all clusters", func() (bool, error) { return w.ready(ctx, b.near.Name) }); err != nil {
		return err
	}
	b.say("importing everything")
	b.near.AgentFlags = []string{"--heartbeat-interval", exporter.DefaultHeartbeatInterval.String()} // a fleet for tests has them more often
	from := b.hub.audit.size()
	if err := b.near.restartAgent(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("%d services of %d clusters, %d slices of %d endpoints → imported, first time", len(w.services), w.clusters-1, len(w.slices), w.endpoints)
	if err := b.importedAll(ctx, len(w.services), what); err != nil {
		return err
	}
	if err := b.checkAddresses(ctx, w.addresses()); err != nil {
		return err
	}
	wrong := []error{b.idles(ctx, w.idle)}
	if err := b.churn(ctx, w); err != nil {
		return err
	}
	if err := b.roll(ctx, w); err != nil {
		return err
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	wrong = append(wrong, b.checkAddresses(ctx, w.addresses()))

	opened, open, err := b.hub.audit.watches(from, agentOnHub(b.near.Name))
	if err != nil {
		return err
	}
	b.row("watches of the agent on the hub", "", "", "", fmt.Sprintf("%d open (%s), %d opened", len(open), strings.Join(open, ", "), opened))
	if len(open) != 3 {
		wrong = append(wrong, fmt.Errorf("the agent holds %d watches on the hub, want 3: %q", len(open), open))
	}
	for _, p := range []*fleet.Program{b.near.Agent, b.near.DNS.Program, b.hub.Process} {
		is, peak := memoryOf(p.PID())
		b.row(fmt.Sprintf("resident memory of %s", p.Name), "", "", "", fmt.Sprintf("%d MiB, at most %d MiB", is, peak))
	}
	for _, cluster := range []string{b.near.Name, b.hub.Name} {
		_, resident := b.servers(cluster)
		b.row(fmt.Sprintf("resident memory of %s's API server and etcd", cluster), "", "", "", fmt.Sprintf("%d MiB", resident))
	}
	return errors.Join(wrong...)
}

// idles counts the writes of near's agent to its own API server while nothing but heartbeats happens, and measures its processor time and
// memory.
func (b *bench) idles(ctx context.Context, d time.Duration) error {
	b.say("doing nothing for %s", d)
	if err := b.settled(ctx); err != nil {
		return err
	}
	from, was := b.near.audit.size(), b.usage()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
	}
	used := b.usage().minus(was)
	n, _, what, err := b.near.audit.writes(from, agentHere)
	if err != nil {
		return err
	}
	agent, _ := memoryOf(b.near.Agent.PID())
	dns, _ := memoryOf(b.near.DNS.PID())
	b.row(fmt.Sprintf("writes in the member in %s without changes", d), "", "", "", strings.TrimRight(fmt.Sprintf("%d %s", n, what), " "))
	b.row("processor time meanwhile", "", "", "", used)
	b.row("resident memory then", "", "", "", fmt.Sprintf("agent %d MiB, CoreDNS %d MiB", agent, dns))
	if n > 0 && what != "update reachabilities: 1" { // its stamp, every three minutes (D51)
		return fmt.Errorf("the agent wrote while nothing changed: %d %s", n, what)
	}
	return nil
}
