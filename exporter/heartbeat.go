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

// heartbeat renews the member's Lease on the hub. The hub only looks at whether the Lease changes, so this cluster's clock
// may be wrong.
type heartbeat struct {
	interval time.Duration
	after    <-chan struct{} // the first pass; see pass
	claim    *claim
	renew    func(context.Context) error
	back     <-chan struct{} // the hub may be back
	readAnew func()          // has the caches of the hub read anew
	changed  <-chan struct{} // somebody else changes our records again and again; see overwritten
	// catchUp writes what couldn't be written while the hub was out of reach, and what the hub has lost meanwhile. Its error is
	// errBehind where that takes longer.
	catchUp func(context.Context) error

	behind time.Time // since when heartbeats are held back for records; zero: they aren't
	heard  time.Time // when the hub was last back
	atOdds bool      // the present heartbeat is because of changed
}

// maxHeldBack is for how many intervals heartbeats wait for records. One that the hub never takes mustn't have the whole cluster expire.
const maxHeldBack = 6

// returning is for how many intervals after the hub was back a heartbeat that failed is repeated at once, but for a moment: the sooner
// this cluster has seen what the hub is now, the sooner all have right answers. An API server that starts may refuse the first.
const returning = 3

// run renews the Lease until ctx ends, for the first time once the first pass is done. A failure is only counted and
// logged: the next beat is the retry.
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
			logger.Error(err, "Heartbeat failed; the hub will take this cluster for silent if that lasts")
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
			// At once, but for a moment: as long as it takes to tell who that is, the Lease is to show that we are here.
			h.atOdds = true
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(h.interval / 10):
			}
		}
	}
}

// beat renews once, and gives up in time for the next beat. After failures, and where the hub was set back, what it has of this
// cluster is brought up to date first: as before the first pass, a cluster that returns isn't to be taken for healthy with its
// endpoints of before.
func (h *heartbeat) beat(ctx context.Context, late bool) error {
	ctx, cancel := context.WithTimeout(ctx, h.interval)
	defer cancel()
	setBack, err := h.claim.check(ctx)
	if setBack {
		log.FromContext(ctx).WithName("heartbeat").Info("The hub has been set back: this cluster's Lease isn't what was written last. Reading everything anew")
		h.readAnew()
	}
	// Records that two agents change are never up to date.
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

// renewLease returns what renews a member's Lease, and creates it where it isn't there: one server-side apply does either,
// without reading first.
func renewLease(hub client.Client, c *claim, opts Options) func(context.Context) error {
	namespace := api.MemberNamespace(opts.Cluster)
	return func(ctx context.Context) error {
		annotations := map[string]string{
			api.AnnotationAgentVersion: opts.Version, api.AnnotationFeatures: api.FeatureCommunities, api.AnnotationRun: c.run, api.AnnotationStarted: c.started.UTC().Format(time.RFC3339Nano),
		}
		if own, _ := c.own.Load().(string); own != "" {
			annotations[api.AnnotationClusterUID] = own
		}
		if opts.Zones != nil {
			// Unless they are known nothing is said, and the hub keeps what it knows: an agent that was started anew, or has lost
			// its right to read nodes, has not moved its cluster.
			if zones, known := opts.Zones(); known {
				annotations[api.AnnotationZones] = strings.Join(zones, ",")
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
