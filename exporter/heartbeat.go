package exporter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1ac "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/exporter/membership"
)

// heartbeat renews the member's Lease on the hub. The hub only checks whether the Lease changes, so this cluster's clock may be
// wrong.
type heartbeat struct {
	interval time.Duration
	phase    float64         // from 0 to 1: when this cluster's turn is among all that do the same
	after    <-chan struct{} // the first pass; see pass
	claim    *claim
	renew    func(context.Context) error
	back     <-chan struct{} // the hub may be back
	relist   func()          // makes the hub's caches read everything again
	// upToDate writes what the hub may have lost, or couldn't be written, while it was unreachable. If that takes longer, its error is errBehind.
	upToDate func(context.Context) error

	heard time.Time // when the hub was last back
	again int       // how many heartbeats in a row were retried before their time
}

// returning is for how many intervals after the hub is back a failed heartbeat is retried after only a moment: the sooner this
// cluster sees the hub's state, the sooner all answers are right. An API server that is starting may reject the first one. The moment is a
// tenth of an interval, and each time twice as long.
const returning = 3

// spread is the part of an interval over which the clusters spread what they ask of a hub that is back (rule C70 of
// docs/spec/control-plane.md).
const spread = 5

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
		case errors.Is(err, errLost):
			_ = h.claim.take(ctx) // writes nothing to the hub meanwhile, except that it yields to a clone
			failing = true
			continue
		case err != nil && !failing:
			logger.Error(err, "Heartbeat failed; the hub will consider this cluster silent if that continues")
		case err == nil && failing:
			logger.Info("Heartbeats arrive again")
		}
		failing = err != nil
		if failing && (errors.Is(err, errBehind) || time.Since(h.heard) < returning*h.interval) {
			tick.Reset(min(h.interval/10<<h.again, h.interval))
			h.again = min(h.again+1, 4)
		} else {
			h.again = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-h.back:
			// All clusters hear that at the same time.
			if sleep(ctx, time.Duration(h.phase*float64(h.interval/spread))) != nil {
				return nil // it was stopped
			}
			h.heard, h.again = time.Now(), 0
		}
	}
}

// phaseOf returns a cluster's phase, which spreads clusters evenly.
func phaseOf(cluster string) float64 {
	sum := sha256.Sum256([]byte(cluster))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
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
	if err == nil {
		err = h.bringUpToDate(ctx, late || setBack)
	}
	if err == nil {
		err = h.renew(ctx)
	}
	if err != nil {
		metricHeartbeats.WithLabelValues(resultError).Inc()
		return err
	}
	metricHeartbeats.WithLabelValues(resultOK).Inc()
	metricLastHeartbeat.SetToCurrentTime()
	return nil
}

// bringUpToDate returns nil once the heartbeat needn't wait for records. anew means that the hub may have lost some.
func (h *heartbeat) bringUpToDate(ctx context.Context, anew bool) error {
	if !anew && !h.claim.doubtful {
		return nil
	}
	h.claim.doubtful = true
	if h.claim.is() == membership.Contested { // records that two agents keep changing are never up to date
		return nil
	}
	if anew && !h.claim.name.Confirmed() { // otherwise the hub has just been asked for it
		if _, err := h.claim.lease(ctx); err != nil {
			return err // the hub is still away, and there is nothing to try
		}
	}
	ctx, cancel := context.WithTimeout(ctx, h.interval/2)
	defer cancel()
	if err := h.upToDate(ctx); err != nil {
		return err
	}
	h.claim.doubtful = false
	return nil
}

// maxZones is how many zones a heartbeat states, as many as a MemberCluster's status has room for.
const maxZones = 64

// renewLease returns a function that renews a member's Lease and creates it if it doesn't exist: one server-side apply does
// both, without reading first.
func renewLease(hub client.Client, c *claim, opts Options) func(context.Context) error {
	namespace := api.MemberNamespace(opts.Cluster)
	identity, _ := os.Hostname() // only for people to read
	return func(ctx context.Context) error {
		annotations := map[string]string{
			api.AnnotationAgentVersion: opts.Version, api.AnnotationRun: c.name.Run, api.AnnotationStarted: c.name.Started.UTC().Format(time.RFC3339Nano),
		}
		always := maps.Clone(annotations)
		if own := c.name.Cluster; own != "" {
			annotations[api.AnnotationClusterUID] = own
		}
		// If they are unknown, leave them out, so that the hub keeps what it knows: an agent that was restarted, or lost the right to read
		// nodes, hasn't moved its cluster.
		if zones, known := opts.Nodes.Zones(); known {
			annotations[api.AnnotationZones] = strings.Join(zones[:min(len(zones), maxZones)], ",")
		}
		if opts.Notes != nil {
			maps.Copy(annotations, opts.Notes(ctx))
		}
		labels := map[string]string{api.LabelManagedBy: api.ManagedByExporter, api.LabelCluster: opts.Cluster}
		renewed := c.renewing(metav1.NowMicro())
		apply := func() (foreign bool, err error) {
			lease := coordinationv1ac.Lease(api.HeartbeatLease, namespace).
				WithLabels(labels).
				WithAnnotations(annotations).
				WithSpec(coordinationv1ac.LeaseSpec().
					WithHolderIdentity(cmp.Or(identity, opts.Cluster)).
					WithLeaseDurationSeconds(int32(4 * opts.HeartbeatInterval / time.Second)).
					WithRenewTime(renewed))
			if err := hub.Apply(ctx, lease, client.FieldOwner(api.FieldManagerExporter), client.ForceOwnership); err != nil {
				return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), err
			}
			for key := range lease.Annotations { // as they are on the hub
				_, ours := annotations[key]
				foreign = foreign || !ours && strings.HasPrefix(key, api.Domain+"/")
			}
			return foreign, nil
		}
		foreign, err := apply()
		if foreign && stripLease(ctx, hub, namespace, labels, always) == nil {
			_, err = apply()
		}
		if err != nil {
			return fmt.Errorf("apply Lease %s/%s: %w", namespace, api.HeartbeatLease, err)
		}
		c.name.Renewed()
		return nil
	}
}

// stripLease leaves the Lease only labels and annotations that every heartbeat has, and no managers of its fields. An apply adds to what somebody
// else left there, such as a thief of the token before it was revoked. Together that may be more than the hub's policy admits, and it says what
// this agent doesn't.
// S59 of docs/security.md.
func stripLease(ctx context.Context, hub client.Client, namespace string, labels, annotations map[string]string) error {
	patch, err := json.Marshal([]map[string]any{
		{"op": "add", "path": "/metadata/labels", "value": labels},
		{"op": "add", "path": "/metadata/annotations", "value": annotations},                       // any other couldn't be left out later
		{"op": "add", "path": "/metadata/managedFields", "value": []metav1.ManagedFieldsEntry{{}}}, // the API server forgets them
	})
	if err != nil {
		return fmt.Errorf("strip Lease: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.HeartbeatLease}}
	return hub.Patch(ctx, lease, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(api.FieldManagerExporter))
}
