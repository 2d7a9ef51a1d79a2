package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// churn changes slices of headless services at a fixed rate, one endpoint per change. It adds rows for how long each change took until
// near's CoreDNS answered it, and for the cost. A slice isn't changed again before its last change is answered.
func (b *bench) churn(ctx context.Context, w *world) error {
	b.say("changing %d endpoints a second for %s", w.rate, w.time)
	ctx, cancel := context.WithTimeout(ctx, w.time+b.limit)
	defer cancel()
	settled := make(chan *exportedSlice, len(w.headless))
	for _, e := range w.headless {
		settled <- e
	}
	was := b.usage()
	began := time.Now()
	tick := time.NewTicker(time.Second / time.Duration(w.rate))
	defer tick.Stop()
	var mu sync.Mutex
	var all []time.Duration
	group, inGroup := errgroup.WithContext(ctx)
	changes := w.rate * int(w.time/time.Second)
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
	used := b.usage().minus(was)
	b.percentiles(fmt.Sprintf("an endpoint changes on the hub → answered, %.0f a second for %s", rate, w.time), all)
	b.row("processor time for each of those changes", "", "", "", used.per(changes).String())
	return nil
}

// roll replaces the addresses of all endpoints of many services at once.
func (b *bench) roll(ctx context.Context, w *world) error {
	rolled := w.headless[:min(w.rolled, len(w.headless))]
	b.say("rolling %d services", len(rolled))
	ctx, cancel := context.WithTimeout(ctx, b.limit)
	defer cancel()
	all := make([]time.Duration, len(rolled))
	was := b.usage()
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
	b.percentiles(fmt.Sprintf("%d services are rolled at once → all %d endpoints of each are answered", len(rolled), w.endpoints), all)
	b.row("processor time for all of that", "", "", "", b.usage().minus(was).String())
	return nil
}

// change replaces endpoints and waits until their names resolve to the new addresses. The longer that takes, the less often it asks:
// hundreds of waiting queries must not take processor time from the processes they wait for.
func (b *bench) change(ctx context.Context, w *world, e *exportedSlice, all bool) (time.Duration, error) {
	began := time.Now()
	changed, err := w.replace(ctx, e, all)
	if err != nil {
		return 0, err
	}
	for _, n := range changed {
		for {
			answer, err := b.dig(e.name(n))
			if err == nil && answer == e.addresses[n] {
				break
			}
			select {
			case <-ctx.Done():
				return 0, fmt.Errorf("%s after its change: %w (last answer: %q, %v)", e.name(n), context.Cause(ctx), answer, err) //nolint:errorlint // it may be nil
			case <-time.After(max(2*time.Millisecond, time.Since(began)/20)):
			}
		}
	}
	return time.Since(began), nil
}

// usage is the processor time of near's agent and CoreDNS, and of the API servers and etcds of near and the hub.
type usage struct{ agent, dns, near, hub time.Duration }

func (b *bench) usage() usage {
	u := usage{agent: cpuOf(b.near.Agent.PID()), dns: cpuOf(b.near.DNS.PID())}
	u.near, _ = b.servers(b.near.Name)
	u.hub, _ = b.servers(b.hub.Name)
	return u
}

func (u usage) minus(v usage) usage {
	return usage{u.agent - v.agent, u.dns - v.dns, u.near - v.near, u.hub - v.hub}
}

func (u usage) per(n int) usage {
	d := time.Duration(n)
	return usage{u.agent / d, u.dns / d, u.near / d, u.hub / d}
}

// String rounds to 10 µs, the precision for a single change, or to 10 ms if the agent has used more than a second.
func (u usage) String() string {
	to := 10 * time.Microsecond
	if u.agent > time.Second {
		to = 10 * time.Millisecond
	}
	return fmt.Sprintf("agent %s, CoreDNS %s, near's API server and etcd %s, the hub's %s; load average %s",
		u.agent.Round(to), u.dns.Round(to), u.near.Round(to), u.hub.Round(to), loadAverage())
}
