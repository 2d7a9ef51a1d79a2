package exporter

import (
	"context"
	"errors"
	"fmt"
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
}

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
		err := h.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errNameTaken):
			return err // ends the process; the next waits its turn, see claim
		case err != nil && !failing:
			logger.Error(err, "Heartbeat failed; the hub will take this cluster for silent if that lasts")
		case err == nil && failing:
			logger.Info("Heartbeats arrive again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// beat renews once, and gives up in time for the next beat.
func (h *heartbeat) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.interval)
	defer cancel()
	err := h.claim.check(ctx)
	if err == nil {
		err = h.renew(ctx)
	}
	if err != nil {
		metricHeartbeats.WithLabelValues("error").Inc()
		return err
	}
	h.claim.written.Store(true)
	metricHeartbeats.WithLabelValues("ok").Inc()
	metricLastHeartbeat.SetToCurrentTime()
	return nil
}

// renewLease returns what renews a member's Lease, and creates it where it isn't there: one server-side apply does either,
// without reading first.
func renewLease(hub client.Client, c *claim, opts Options) func(context.Context) error {
	namespace := api.MemberNamespace(opts.Cluster)
	return func(ctx context.Context) error {
		annotations := map[string]string{api.AnnotationAgentVersion: opts.Version}
		if own, _ := c.own.Load().(string); own != "" {
			annotations[api.AnnotationClusterUID] = own
		}
		lease := coordinationv1ac.Lease(api.HeartbeatLease, namespace).
			WithLabels(map[string]string{api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: opts.Cluster}).
			WithAnnotations(annotations).
			WithSpec(coordinationv1ac.LeaseSpec().
				WithHolderIdentity(opts.Identity).
				WithLeaseDurationSeconds(int32(4 * opts.HeartbeatInterval / time.Second)).
				WithRenewTime(metav1.NowMicro()))
		if err := hub.Apply(ctx, lease, client.FieldOwner(api.FieldManagerExporter), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply Lease %s/%s: %w", namespace, api.HeartbeatLease, err)
		}
		return nil
	}
}
