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
	"github.com/clusterset/clusterset/internal/communities"
)

// Why a part of a service that the hub doesn't have is kept. Each resolves itself.
var (
	errVanished = errors.New("its record was deleted without being withdrawn; its exporter is about to write it again")
	errUnheard  = errors.New("the cluster has joined but sent no heartbeat yet, so its exports may not be on the hub")
	errLeaving  = errors.New("the cluster has just left")
	errUnread   = errors.New("the cluster's records have not all been read yet: the hub gives the right to read them a moment after its MemberCluster's communities change")
)

// errSpread delays a decision for a moment.
var errSpread = errors.New("waiting for a moment, so that not all members ask the hub at once")

// leaveGrace is how long to wait before believing that a cluster has left. If all MemberClusters are being deleted, one after the
// other, this cluster's is among them by then, and the Guard keeps everything.
const leaveGrace = 3 * time.Second

// LostError means that the hub no longer knows a cluster, although nothing says that the cluster left.
type LostError struct {
	Cluster string
	Until   time.Time
}

func (e *LostError) Error() string {
	return fmt.Sprintf("%s is not on the hub, which has lost it, because a cluster that leaves stays there for a while, and has not joined again; what it exported is kept until %s",
		e.Cluster, e.Until.UTC().Format(time.RFC3339))
}

// Retry returns when to check again: periodically, and when the grace period ends.
func (e *LostError) Retry(now time.Time) time.Duration {
	return min(heldRetry, max(e.Until.Sub(now), time.Second))
}

// vanishedRetry is when to check again whether a record is back, or its cluster has left.
const vanishedRetry = time.Second

// Hold decides about single parts of services that are missing on a hub that knows this cluster (Guard). It distinguishes what was
// un-exported from what was lost:
//
//   - A cluster that left: its MemberCluster is deleted, and stays for a while to say so.
//   - A cluster that the hub lost, because the hub lost its data or was restored from a backup that is older than the membership:
//     its MemberCluster is missing. Its parts are kept until it has joined again and sent a heartbeat, because nothing says that
//     it stopped exporting.
//   - A cluster that shares no community with this one any more, or not yet: both MemberClusters say so.
//   - A cluster whose records can't be read at this moment, though it shares one.
//   - An un-export: the exporter withdraws a record before it deletes it (departures).
//   - Records that someone deleted by hand: the exporter gets time to write them again.
type Hold struct {
	Guard       *Guard
	Hub, Here   client.Reader // caches
	Departures  *Departures
	AwaitRejoin time.Duration
	// Spread is how long to wait before asking the hub about a missing part that was not withdrawn, so that not all members ask at
	// once.
	Spread time.Duration
	// Unread reports whether some of a cluster's records haven't been read yet. Nil means that all have been.
	Unread func(cluster string) bool
	Clock  clock.PassiveClock

	mu    sync.Mutex
	since map[types.NamespacedName]map[Part]time.Time // when each was first found missing
	left  map[types.UID]time.Time                     // when each MemberCluster was first seen to say that its cluster has left
}

// Decision is what to keep of a Removal.
type Decision struct {
	// Retained are the missing parts that are kept.
	Retained []Part
	// Refused is set if nothing at all may be deleted.
	Refused bool
	// Retry is when to check again, and Why the reason for one of the parts, nil if nothing is kept.
	Retry time.Duration
	Why   error
}

// Decide returns what to keep of a service's removal.
func (h *Hold) Decide(ctx context.Context, service types.NamespacedName, removal Removal) Decision {
	since := h.noted(service, removal.Missing)
	if !removal.Any() {
		return Decision{}
	}
	// The caches need no request, which many members would make at once.
	known := h.Guard.known(ctx)
	withdrawn, first, vanished, ask := !removal.Other, time.Duration(math.MaxInt64), time.Duration(-1), false
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
			case errors.Is(err, errVanished):
				missing := h.Clock.Since(since[p])
				again, vanished = vanishedRetry, max(vanished, missing)
				ask = ask || missing < vanishedRetry && h.Departures.grace(p) == unseenGrace
			case errors.Is(err, errUnread): // also if the hub has lost the kind
				if vanished = max(vanished, h.Clock.Since(since[p])); vanished < h.Spread+vanishedRetry {
					again = vanishedRetry
				}
			case errors.Is(err, errLeaving):
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
		// Nothing is removed. Ask the hub anyway: if it has lost a kind of record, and serves it again before anything would be removed,
		// the Guard must have noticed. If the watch was interrupted, that may be about to happen.
		if ask || h.Spread <= vanished && vanished < h.Spread+vanishedRetry {
			_ = h.Guard.MayDelete(ctx)
		}
		return d
	case known == nil && withdrawn:
		return d // its exporter withdrew it
	case known == nil && !removal.Other && first < h.Spread:
		return Decision{removal.Missing, true, h.Spread - first, errSpread}
	}
	if err := h.Guard.MayDelete(ctx); err != nil {
		return Decision{removal.Missing, true, RetryAfter(err), err}
	}
	return d
}

// noted returns since when each part has been missing. It forgets parts that are back.
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
	if apart, err := h.apart(ctx, member); apart || err != nil {
		return err
	}
	grace := h.Departures.grace(p)
	switch phase := member.Status.Phase; {
	case grace > 0 && h.Unread != nil && h.Unread(p.Cluster):
		return errUnread
	case grace == 0 || phase == clustersetv1alpha1.MemberExpired: // the hub deletes the records of an Expired cluster
		return nil
	case phase == "" && h.Clock.Since(member.CreationTimestamp.Time) < h.AwaitRejoin:
		return errUnheard
	case h.Clock.Since(since) < grace:
		return errVanished
	}
	return nil
}

// apart reports whether a cluster shares no community with this one. Then this cluster may not read its records, and doesn't wait for
// them. The Guard has checked that this cluster's own MemberCluster is on the hub.
func (h *Hold) apart(ctx context.Context, member *clustersetv1alpha1.MemberCluster) (bool, error) {
	own := &clustersetv1alpha1.MemberCluster{}
	if err := h.Hub.Get(ctx, client.ObjectKey{Name: h.Guard.Cluster}, own); err != nil {
		return false, fmt.Errorf("get MemberCluster %s from the hub: %w", h.Guard.Cluster, err)
	}
	return member.Name != own.Name && !communities.Share(own.Spec.Communities, member.Spec.Communities), nil
}

// Left returns nil if a cluster whose MemberCluster says that it has left can be considered gone.
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

// Lost returns a LostError if the importer has to wait for a cluster without a MemberCluster on the hub. The local copy of its
// MemberCluster records since when it has been missing. The importer doesn't wait if there is no copy, or if the cluster never joined
// but was only described.
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
