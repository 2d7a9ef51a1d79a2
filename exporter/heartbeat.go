package exporter

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// heartbeat renews the member's Lease on the hub. The hub only checks whether the Lease changes, so this cluster's clock may be wrong.
type heartbeat struct {
	interval time.Duration
	after    <-chan struct{} // closed when the first pass is done
	claim    *claim
	back     <-chan struct{}             // the hub may be back
	relist   func()                      // makes the hub's caches read everything again
	upToDate func(context.Context) error // brings this cluster's records on the hub up to date
	report   func(context.Context) error // brings what this cluster says about itself up to date

	doubt bool // the hub was away or restored, and the records haven't been brought up to date since
}

// spread is the part of an interval over which the clusters spread, at random, what they ask of a hub that is back (rule C70 of
// docs/spec/control-plane.md).
const spread = 5

// run takes the cluster's name and renews the Lease until ctx ends, first after the first pass. Then it hands the name over. A heartbeat that fails
// is repeated after a tenth of the interval, and each time after twice as long, up to the interval: the sooner this cluster sees the state of a hub
// that is back, the sooner all answers are right, and an API server that is starting may reject the first one.
func (h *heartbeat) run(ctx context.Context) error {
	defer h.claim.release(ctx)
	h.claim.take(ctx)
	select {
	case <-ctx.Done():
		return nil
	case <-h.after:
	}
	logger := log.FromContext(ctx).WithName("heartbeat")
	logger.Info("The first export pass is done, sending heartbeats", "interval", h.interval)
	failed := 0 // in a row
	tick := time.NewTicker(h.interval)
	defer tick.Stop()
	for {
		tick.Reset(h.interval)
		began := time.Now()
		err := h.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errLost):
			h.claim.take(ctx) // nothing is written to the hub meanwhile
			continue
		case err != nil:
			if failed == 0 {
				logger.Error(err, "Heartbeat failed; the hub will consider this cluster silent if that continues")
			}
			tick.Reset(max(min(h.interval/10<<failed, h.interval-time.Since(began)), 1))
			failed = min(failed+1, 4)
		case failed > 0:
			logger.Info("Heartbeats arrive again")
			failed = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-h.back: // all clusters hear that at the same time
			failed = min(failed, 1)
			select {
			case <-ctx.Done():
			case <-time.After(rand.N(h.interval / spread)):
			}
		}
	}
}

// beat renews once, and gives up in time for the next beat. After failures, and if the hub was restored, this cluster's records
// are brought up to date first, as before the first pass: a cluster that returns must not count as healthy with outdated
// endpoints.
func (h *heartbeat) beat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.interval)
	defer cancel()
	err := h.renew(ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // the Lease isn't as it was: it is read, once more at most
		err = h.renew(ctx)
	}
	if err != nil {
		h.doubt = true
		metricHeartbeats.WithLabelValues(resultError).Inc()
		return err
	}
	metricHeartbeats.WithLabelValues(resultOK).Inc()
	metricLastHeartbeat.SetToCurrentTime()
	if err := h.report(ctx); err != nil {
		log.FromContext(ctx).WithName("heartbeat").Info("Can't report on the hub what this cluster says about itself, trying again", "reason", err.Error())
	}
	return nil
}

// renew renews the Lease if it is ours, once the heartbeat needn't wait for records.
func (h *heartbeat) renew(ctx context.Context) error {
	restored, err := h.claim.check(ctx)
	if err != nil {
		return err
	}
	if restored {
		log.FromContext(ctx).WithName("heartbeat").Info("The hub has been restored from a backup: this cluster's Lease isn't what was last written. Reading everything again")
		h.doubt = true
		h.relist()
	}
	if h.doubt {
		catchUp, cancel := context.WithTimeout(ctx, h.interval/2)
		defer cancel()
		if err := h.upToDate(catchUp); err != nil {
			return err
		}
		h.doubt = false
	}
	return h.claim.renew(ctx)
}
