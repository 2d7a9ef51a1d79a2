package importer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Why a part of a service that the hub doesn't have is kept. Each passes by itself.
var (
	errVanished = errors.New("its record went without having been withdrawn; its exporter is about to write it anew")
	errUnheard  = errors.New("the cluster has joined and sent no heartbeat yet, so its exports may not be on the hub")
)

// notRejoinedError says that a cluster is missing on a hub that has lost its data.
type notRejoinedError struct {
	cluster string
	until   time.Time
}

func (e *notRejoinedError) Error() string {
	return fmt.Sprintf("%s was known before this cluster joined the hub, which has lost its data since, and has not joined again; what it exported is kept until %s",
		e.cluster, e.until.UTC().Format(time.RFC3339))
}

// retry is when to look again: now and then, and when the time is over.
func (e *notRejoinedError) retry(now time.Time) time.Duration {
	return min(heldRetry, max(e.until.Sub(now), time.Second))
}

// vanishedRetry is when to look again whether a record is back, or its cluster has left.
const vanishedRetry = time.Second

// hold decides about single parts of services that the hub doesn't have, on a hub that knows us (hubGuard). It tells what
// was un-exported from what got lost:
//
//   - A cluster that left: its MemberCluster is gone, and ours is the one it was when theirs was here last.
//   - A hub that lost its data: ours is another one than then. Those who haven't joined again since, or have and sent no
//     heartbeat yet, are waited for, because nothing says that they stopped exporting.
//   - An un-export: the exporter withdraws a record before it deletes it (departures).
//   - Somebody's hand that deleted records: the exporter is given the time to write them anew.
type hold struct {
	guard       *hubGuard
	hub, here   client.Reader // caches
	departures  *departures
	awaitRejoin time.Duration
	clock       clock.PassiveClock

	mu    sync.Mutex
	since map[types.NamespacedName]map[part]time.Time // when each was first found missing
}

// back returns which of a service's missing parts are to be kept, when to look again, and why that is for one of them.
func (h *hold) back(ctx context.Context, service types.NamespacedName, missing []part) (kept []part, retry time.Duration, why error) {
	since := h.noted(service, missing)
	if len(missing) == 0 {
		return nil, 0, nil
	}
	if err := h.guard.mayDelete(ctx); err != nil {
		return missing, retryAfter(err), err
	}
	for _, p := range missing {
		err := h.keeps(ctx, p, since[p])
		if err == nil {
			continue
		}
		again := heldRetry
		var away *notRejoinedError
		switch {
		case errors.Is(err, errVanished):
			again = vanishedRetry
		case errors.As(err, &away):
			again = away.retry(h.clock.Now())
		}
		if kept = append(kept, p); why == nil || again < retry {
			retry, why = again, fmt.Errorf("%s: %w", p.cluster, err)
		}
	}
	return kept, retry, why
}

// noted returns since when each part has been missing. It forgets those that are no longer.
func (h *hold) noted(service types.NamespacedName, missing []part) map[part]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	was, now := h.since[service], make(map[part]time.Time, len(missing))
	for _, p := range missing {
		at, known := was[p]
		if !known {
			at = h.clock.Now()
		}
		now[p] = at
	}
	delete(h.since, service)
	if len(now) > 0 {
		h.since[service] = now
	}
	return now
}

// keeps returns why the part is kept, nil if it isn't.
func (h *hold) keeps(ctx context.Context, p part, since time.Time) error {
	member := &clustersetv1alpha1.MemberCluster{}
	err := h.hub.Get(ctx, client.ObjectKey{Name: p.cluster}, member)
	if apierrors.IsNotFound(err) {
		return h.notRejoined(ctx, p.cluster)
	}
	if err != nil {
		return fmt.Errorf("get MemberCluster %s from the hub: %w", p.cluster, err)
	}
	grace := h.departures.grace(p)
	switch phase := member.Status.Phase; {
	case grace == 0 || phase == clustersetv1alpha1.MemberExpired: // an Expired one's are the hub's to delete
		return nil
	case phase == "" && h.clock.Since(member.CreationTimestamp.Time) < h.awaitRejoin:
		return errUnheard
	case h.clock.Since(since) < grace:
		return errVanished
	}
	return nil
}

// notRejoined returns a notRejoinedError if the cluster, of which the hub has no MemberCluster, is to be waited for.
func (h *hold) notRejoined(ctx context.Context, cluster string) error {
	mirrored := &clustersetv1alpha1.MemberCluster{}
	if err := h.here.Get(ctx, client.ObjectKey{Name: cluster}, mirrored); err != nil {
		return client.IgnoreNotFound(err)
	}
	own := &clustersetv1alpha1.MemberCluster{}
	if err := h.hub.Get(ctx, client.ObjectKey{Name: h.guard.cluster}, own); err != nil {
		return fmt.Errorf("get MemberCluster %s from the hub: %w", h.guard.cluster, err)
	}
	until := own.CreationTimestamp.Add(h.awaitRejoin)
	if !ours(mirrored) || mirrored.Annotations[api.AnnotationMembership] == string(own.UID) || !h.clock.Now().Before(until) {
		return nil
	}
	return &notRejoinedError{cluster, until}
}
