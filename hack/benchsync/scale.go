package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterset/clusterset/exporter"
	"github.com/clusterset/clusterset/hack/proc"
	"github.com/clusterset/clusterset/test/fleet"
)

// scale measures what a large cluster set costs one member. The other clusters are simulated: their records and heartbeats reach the hub as
// those of agents would.
func (b *bench) scale(ctx context.Context) error {
	b.near.Agent.Kill()
	w, err := b.filledHub(ctx)
	if err != nil {
		return err
	}
	return w.beating(ctx, func(ctx context.Context) error { return b.scaled(ctx, w) })
}

// scaled measures near after the hub is filled.
func (b *bench) scaled(ctx context.Context, w *world) error {
	if err := b.heard(ctx, w); err != nil {
		return err
	}
	b.near.AgentFlags = []string{"--heartbeat-interval", exporter.DefaultHeartbeatInterval.String()} // a fleet for tests has them more often
	if err := b.imports(ctx, w, w.String()+" → imported, first time"); err != nil {
		return err
	}
	for _, step := range []func(context.Context, *world) error{b.idles, b.churn, b.roll} {
		if err := step(ctx, w); err != nil {
			return err
		}
	}
	if err := b.settled(ctx); err != nil {
		return err
	}
	if err := b.checkAddresses(ctx, w); err != nil {
		return err
	}
	for _, p := range []*fleet.Program{b.near.Agent, b.near.DNS.Program, b.hub.Process} {
		is, peak := proc.Memory(p.PID())
		b.result("resident memory of "+p.Name, "%d MiB, at most %d MiB", is, peak)
	}
	for _, cluster := range []*fleet.Cluster{&b.near.Cluster, &b.hub.Cluster} {
		_, resident := servers(cluster)
		b.result(fmt.Sprintf("resident memory of %s's API server and etcd", cluster.Name), "%d MiB", resident)
	}
	return nil
}

// idles counts the writes of near's agent to its own API server while nothing but heartbeats happens, and measures its processor time.
func (b *bench) idles(ctx context.Context, _ *world) error {
	b.say("doing nothing for %s", b.sizes.idle)
	if err := b.settled(ctx); err != nil {
		return err
	}
	had, err := b.created(ctx)
	if err != nil {
		return err
	}
	from, was := b.audit(b.near.Name).size(), b.usage()
	if err := pause(ctx, b.sizes.idle); err != nil {
		return err
	}
	used := b.usage().since(was, 1)
	wrote, err := b.audit(b.near.Name).writes(from, agentHere)
	if err != nil {
		return err
	}
	has, err := b.created(ctx)
	if err != nil {
		return err
	}
	if has != had {
		return fmt.Errorf("the agent created %.0f objects while nothing changed", has-had)
	}
	b.result(fmt.Sprintf("writes in the member in %s without changes", b.sizes.idle), "%s", wrote)
	b.result("processor time meanwhile", "%s", used)
	if wrote != "0" && wrote != "1 (update reachabilities: 1)" { // its stamp, every three minutes (D51)
		return fmt.Errorf("the agent wrote while nothing changed: %s", wrote)
	}
	return nil
}

// created returns how many objects near's agent says it has created: the audit log leaves these out.
func (b *bench) created(ctx context.Context) (float64, error) {
	s, err := b.near.Metrics.Samples(ctx)
	return s.Sum("clusterset_importer_writes_total", "verb", "create"), err
}

// churn changes slices of headless services at a fixed rate, one endpoint per change. It adds rows for how long each change took until
// near's CoreDNS answered it, and for the cost. A slice isn't changed again before its last change is answered.
func (b *bench) churn(ctx context.Context, w *world) error {
	b.say("changing %d endpoints a second for %s", b.sizes.rate, b.sizes.time)
	settled := make(chan *exportedSlice, len(w.headless))
	for _, e := range w.headless {
		settled <- e
	}
	was, began := b.usage(), time.Now()
	tick := time.NewTicker(time.Second / time.Duration(b.sizes.rate))
	defer tick.Stop()
	var mu sync.Mutex
	var all []time.Duration
	group, inGroup := errgroup.WithContext(ctx)
	changes := b.sizes.rate * int(b.sizes.time/time.Second)
	for range changes {
		var e *exportedSlice
		select {
		case <-inGroup.Done():
			return group.Wait()
		case e = <-settled:
		}
		select {
		case <-inGroup.Done():
			return group.Wait()
		case <-tick.C:
		}
		group.Go(func() error {
			took, err := b.change(inGroup, w, e, false)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took)
			settled <- e
			return err
		})
	}
	rate := float64(changes) / time.Since(began).Seconds()
	if err := group.Wait(); err != nil {
		return err
	}
	used := b.usage().since(was, changes)
	b.percentiles(fmt.Sprintf("an endpoint changes on the hub → answered, %.0f a second for %s", rate, b.sizes.time), all)
	b.result("processor time for each of those changes", "%s", used)
	return nil
}

// roll replaces the addresses of all endpoints of many services at once.
func (b *bench) roll(ctx context.Context, w *world) error {
	rolled := w.headless[:min(b.sizes.rolled, len(w.headless))]
	b.say("rolling %d services", len(rolled))
	all := make([]time.Duration, len(rolled))
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i, e := range rolled {
		group.Go(func() (err error) {
			_, err = b.change(ctx, w, e, true)
			all[i] = time.Since(began)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	b.percentiles(fmt.Sprintf("%d services are rolled at once → all endpoints of each are answered", len(rolled)), all)
	return nil
}

// change replaces endpoints and waits until their names resolve to the new addresses.
func (b *bench) change(ctx context.Context, w *world, e *exportedSlice, all bool) (time.Duration, error) {
	began := time.Now()
	changed, err := w.replace(ctx, e, all)
	if err != nil {
		return 0, err
	}
	for _, n := range changed {
		if err := b.answered(ctx, began, e.name(n), is(e.addresses[n])); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
