package hold

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Why a part of a service that the hub doesn't have is kept. Each passes by itself.
var (
	errVanished = errors.New("its record went without having been withdrawn; its exporter is about to write it anew")
	errUnheard  = errors.New("the cluster has joined and sent no heartbeat yet, so its exports may not be on the hub")
	errLeaving  = errors.New("the cluster has left this moment")
)

// errSpread is why something stays for a moment.
var errSpread = errors.New("other members ask the hub, too")

// leaveGrace is how long after the word that a cluster has left it is believed. Where all MemberClusters are being deleted, one
// after the other, ours is among them by then, and the Guard keeps everything.
const leaveGrace = 3 * time.Second

// LostError says that the hub doesn't know a cluster any more of which nobody has said that it left.
type LostError struct {
	Cluster string
	Until   time.Time
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s is not on the hub, which has lost it, because a cluster that leaves stays there for a while, and has not joined again; what it exported is kept until %s",
		e.Cluster, e.Until.UTC().Format(time.RFC3339))
}

// Retry is when to look again: now and then, and when the time is over.
func (e *LostError) Retry(now time.Time) time.Duration {
	return min(heldRetry, max(e.Until.Sub(now), time.Second))
}

// vanishedRetry is when to look again whether a record is back, or its cluster has left.
const vanishedRetry = time.Second

// Hold decides about single parts of services that the hub doesn't have, on a hub that knows us (Guard). It tells what
// was un-exported from what got lost:
//
//   - A cluster that left: its MemberCluster is deleted, and stays for a while to say so.
//   - A hub that lost it, as one that was restored from a backup of before it joined, or lost everything: its MemberCluster is
//     missing. Those who haven't joined again, or have and sent no heartbeat yet, are waited for, because nothing says that they
//     stopped exporting.
//   - An un-export: the exporter withdraws a record before it deletes it (departures).
//   - Somebody's hand that deleted records: the exporter is given the time to write them anew.
type Hold struct {
	Guard       *Guard
	Hub, Here   client.Reader // caches
	Departures  *Departures
	AwaitRejoin time.Duration
	// Spread is how long after something is missing that nobody withdrew the hub is asked about it, so that not all members do at
	// once.
	Spread time.Duration
	Clock  clock.PassiveClock

	mu    sync.Mutex
	since map[types.NamespacedName]map[Part]time.Time // when each was first found missing
	left  map[types.UID]time.Time                     // when each MemberCluster was first seen to say that its cluster has left
}

// Decision says what of a Removal is to stay.
type Decision struct {
	// Retained are the missing parts that are kept.
	Retained []Part
	// Refused says that nothing at all may be taken away.
	Refused bool
	// Retry is when to look again, and Why the reason for one of the parts. It is nil where nothing is kept.
	Retry time.Duration
	Why   error
}

// Decide returns what of a service's removal is to stay.
func (h *Hold) Decide(ctx context.Context, service types.NamespacedName, removal Removal) Decision {
	since := h.noted(service, removal.Missing)
	if !removal.Any() {
		return Decision{}
	}
	// What our caches say takes no question, and many members to ask it.
	known := h.Guard.known(ctx)
	withdrawn, first := !removal.Other, time.Duration(math.MaxInt64)
	var d Decision
	if known == nil {
		for _, p := range removal.Missing {
			err := h.keeps(ctx, p, since[p])
			if err == nil {
				withdrawn = withdrawn && h.Departures.grace(p) == 0
				first = min(first, h.Clock.Since(since[p]))
				continue
			}
			again := heldRetry
			var lost *LostError
			switch {
			case errors.Is(err, errVanished), errors.Is(err, errLeaving):
				again = vanishedRetry
			case errors.As(err, &lost):
				again = lost.Retry(h.Clock.Now())
			}
			if d.Retained = append(d.Retained, p); d.Why == nil || again < d.Retry {
				d.Retry, d.Why = again, fmt.Errorf("%s: %w", p.Cluster, err)
			}
		}
	}
	switch {
	case known == nil && len(d.Retained) == len(removal.Missing) && !removal.Other:
		return d // nothing goes
	case known == nil && withdrawn:
		return d // its exporter has said so
	case known == nil && !removal.Other && first < h.Spread:
		return Decision{removal.Missing, true, h.Spread - first, errSpread}
	}
	if err := h.Guard.MayDelete(ctx); err != nil {
		return Decision{removal.Missing, true, RetryAfter(err), err}
	}
	return d
}

// noted returns since when each part has been missing. It forgets those that are no longer.
func (h *Hold) noted(service types.NamespacedName, missing []Part) map[Part]time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since == nil {
		h.since = map[types.NamespacedName]map[Part]time.Time{}
	}
	was, now := h.since[service], make(map[Part]time.Time, len(missing))
	for _, p := range missing {
		at, known := was[p]
		if !known {
			at = h.Clock.Now()
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
func (h *Hold) keeps(ctx context.Context, p Part, since time.Time) error {
	member := &clustersetv1alpha1.MemberCluster{}
	err := h.Hub.Get(ctx, client.ObjectKey{Name: p.Cluster}, member)
	if apierrors.IsNotFound(err) {
		return h.Lost(ctx, p.Cluster)
	}
	if err != nil {
		return fmt.Errorf("get MemberCluster %s from the hub: %w", p.Cluster, err)
	}
	if member.Left() {
		return h.Left(member)
	}
	grace := h.Departures.grace(p)
	switch phase := member.Status.Phase; {
	case grace == 0 || phase == clustersetv1alpha1.MemberExpired: // an Expired one's are the hub's to delete
		return nil
	case phase == "" && h.Clock.Since(member.CreationTimestamp.Time) < h.AwaitRejoin:
		return errUnheard
	case h.Clock.Since(since) < grace:
		return errVanished
	}
	return nil
}

// Left returns nil if a cluster, whose MemberCluster says that it has left, is to be believed gone.
func (h *Hold) Left(member *clustersetv1alpha1.MemberCluster) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen, ok := h.left[member.UID]
	if !ok {
		if h.left == nil {
			h.left = map[types.UID]time.Time{}
		}
		seen = h.Clock.Now()
		h.left[member.UID] = seen
	}
	if h.Clock.Since(seen) < leaveGrace {
		return errLeaving
	}
	return nil
}

// Lost returns a LostError if the cluster, of which the hub has no MemberCluster, is to be waited for. Since when it is missing
// stands on our copy of its MemberCluster; without a copy nobody waits, nor for a cluster that never joined but was only described.
func (h *Hold) Lost(ctx context.Context, cluster string) error {
	mirrored := &clustersetv1alpha1.MemberCluster{}
	if err := h.Here.Get(ctx, client.ObjectKey{Name: cluster}, mirrored); err != nil {
		return client.IgnoreNotFound(err)
	}
	since := h.Clock.Now()
	if c := meta.FindStatusCondition(mirrored.Status.Conditions, clustersetv1alpha1.ConditionOnHub); c != nil && c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	until := since.Add(h.AwaitRejoin)
	if !desired.Owned(mirrored) || mirrored.Annotations[api.AnnotationJoined] == "" || !h.Clock.Now().Before(until) {
		return nil
	}
	return &LostError{cluster, until}
}
