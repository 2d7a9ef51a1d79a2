package exporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
)

// heartbeat renews the member's Lease on the hub. The hub only checks whether the Lease changes, so this cluster's clock may be
// wrong.
type heartbeat struct {
	interval time.Duration
	after    <-chan struct{} // the first pass; see pass
	claim    *claim
	renew    func(context.Context) error
	back     <-chan struct{} // the hub may be back
	relist   func()          // makes the hub's caches read everything again
	changed  <-chan struct{} // someone else keeps changing our records; see overwritten
	// catchUp writes what couldn't be written while the hub was unreachable, and what the hub has lost meanwhile. If that takes
	// longer, its error is errBehind.
	catchUp func(context.Context) error

	behind time.Time // since when heartbeats are held back for records; zero: they aren't
	heard  time.Time // when the hub was last back
	atOdds bool      // whether changed caused the current heartbeat
}

// maxHeldBack is for how many intervals heartbeats wait for records. A record that the hub never accepts must not make the
// whole cluster expire.
const maxHeldBack = 6

// returning is for how many intervals after the hub is back a failed heartbeat is retried after only a moment: the sooner this
// cluster sees the hub's state, the sooner all answers are right. An API server that is starting may reject the first one.
const returning = 3

// run renews the Lease until ctx ends, first after the first pass. Failures are only counted and logged: the next beat is the
// retry.
func (h *heartbeat) run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-h.after:
	}
	logger := log.FromContext(ctx).WithName("heartbeat")
	logger.Info("The first export pass is done, sending heartbeats", "interval", h.interval)
	tick := time.NewTicker(h.interval)
	defer tick.Stop()
	failing := false
	for {
		tick.Reset(h.interval)
		err := h.beat(ctx, failing)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errNameTaken):
			return err // ends the process; the next waits its turn, see claim
		case errors.Is(err, errCloned):
			h.claim.yield(ctx)
			failing, h.atOdds = true, false
			continue
		case err != nil && !failing:
			logger.Error(err, "Heartbeat failed; the hub will consider this cluster silent if that continues")
		case err == nil && failing:
			logger.Info("Heartbeats arrive again")
		}
		failing, h.atOdds = err != nil, false
		if failing && (errors.Is(err, errBehind) || time.Since(h.heard) < returning*h.interval) {
			tick.Reset(h.interval / 10)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-h.back:
			h.heard = time.Now()
		case <-h.changed:
			// Wait only a moment: while we find out who that is, the Lease should show that we are running.
			h.atOdds = true
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(h.interval / 10):
			}
		}
	}
}

// beat renews once, and gives up in time for the next beat. After failures, and if the hub was restored, this cluster's records
// are brought up to date first, as before the first pass: a cluster that returns must not count as healthy with outdated
// endpoints.
func (h *heartbeat) beat(ctx context.Context, late bool) error {
	ctx, cancel := context.WithTimeout(ctx, h.interval)
	defer cancel()
	setBack, err := h.claim.check(ctx)
	if setBack {
		log.FromContext(ctx).WithName("heartbeat").Info("The hub has been restored from a backup: this cluster's Lease isn't what was last written. Reading everything again")
		h.relist()
	}
	// Records that two agents keep changing are never up to date.
	if err == nil && (late || setBack) && !h.claim.contested && !h.atOdds {
		err = h.upToDate(ctx)
	}
	if err == nil {
		err = h.renew(ctx)
	}
	if err != nil {
		metricHeartbeats.WithLabelValues("error").Inc()
		return err
	}
	metricHeartbeats.WithLabelValues("ok").Inc()
	metricLastHeartbeat.SetToCurrentTime()
	return nil
}

// upToDate returns nil once the heartbeat needn't wait any longer.
func (h *heartbeat) upToDate(ctx context.Context) error {
	if _, err := h.claim.lease(ctx); err != nil {
		return err // the hub is still away, and there is nothing to try
	}
	half, cancel := context.WithTimeout(ctx, h.interval/2)
	defer cancel()
	err := h.catchUp(half)
	switch {
	case err == nil:
	case h.behind.IsZero():
		h.behind = time.Now()
		return err
	case time.Since(h.behind) < maxHeldBack*h.interval:
		return err
	}
	h.behind = time.Time{}
	return nil
}

// maxZones is how many zones a heartbeat states, as many as a MemberCluster's status has room for.
const maxZones = 64

// renewLease returns a function that renews a member's Lease and creates it if it doesn't exist: one server-side apply does
// both, without reading first.
func renewLease(hub client.Client, c *claim, opts Options) func(context.Context) error {
	namespace := api.MemberNamespace(opts.Cluster)
	return func(ctx context.Context) error {
		annotations := map[string]string{
			api.AnnotationAgentVersion: opts.Version, api.AnnotationRun: c.run, api.AnnotationStarted: c.started.UTC().Format(time.RFC3339Nano),
		}
		if own, _ := c.own.Load().(string); own != "" {
			annotations[api.AnnotationClusterUID] = own
		}
		if opts.Zones != nil {
			// If they are unknown, leave them out, so that the hub keeps what it knows: an agent that was restarted, or lost
			// the right to read nodes, hasn't moved its cluster.
			if zones, known := opts.Zones(); known {
				annotations[api.AnnotationZones] = strings.Join(zones[:min(len(zones), maxZones)], ",")
			}
		}
		lease := coordinationv1ac.Lease(api.HeartbeatLease, namespace).
			WithLabels(map[string]string{api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: opts.Cluster}).
			WithAnnotations(annotations).
			WithSpec(coordinationv1ac.LeaseSpec().
				WithHolderIdentity(opts.Identity).
				WithLeaseDurationSeconds(int32(4 * opts.HeartbeatInterval / time.Second)).
				WithRenewTime(c.renewing(metav1.NowMicro())))
		if err := hub.Apply(ctx, lease, client.FieldOwner(api.FieldManagerExporter), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply Lease %s/%s: %w", namespace, api.HeartbeatLease, err)
		}
		c.renewed()
		return nil
	}
}
