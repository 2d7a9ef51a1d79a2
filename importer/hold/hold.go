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
	errUnproved = errors.New("its record disappeared while this agent didn't watch the hub, which may have been restored from a backup; the cluster has sent no heartbeat since")
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
//   - Records that were gone when this importer looked again. The exporter may have withdrawn them, or they may be younger than the backup
//     that the hub was restored from. The exporter brings that into order before it renews its Lease.
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
	since map[types.NamespacedName]map[Part]*missing
	left  map[types.UID]time.Time // when each MemberCluster was first seen to say that its cluster has left
	beats beats
}

// missing is what is remembered of a part without a record.
type missing struct {
	at              time.Time // when it was first found missing
	withdrawn, seen bool      // how it disappeared; see Departures
	// expired is since when its cluster is Expired, according to the MemberCluster that the hub had soon after that.
	expired time.Time
}

// unseenGrace is how long a part is kept at least whose record disappeared unseen. The hub was probably unreachable for all members, and
// restored from a backup. An exporter finds that out with its next heartbeat, at most 10 s later, and writes the missing records. An
// importer's watches may have the backup's state one after another.
const unseenGrace = 20 * time.Second

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
				withdrawn = withdrawn && since[p].withdrawn
				first = min(first, h.Clock.Since(since[p].at))
				continue
			}
			again := heldRetry
			var lost *LostError
			switch missing := h.Clock.Since(since[p].at); {
			case errors.Is(err, errVanished):
				again, vanished = vanishedRetry, max(vanished, missing)
				ask = ask || missing < vanishedRetry && !since[p].seen
			case errors.Is(err, errUnproved):
				if missing < settleFor {
					again = beatPause
				}
			case errors.Is(err, errUnread): // also if the hub has lost the kind
				if vanished = max(vanished, missing); vanished < h.Spread+vanishedRetry {
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

// noted returns what is remembered of each missing part. It forgets parts that are back.
func (h *Hold) noted(service types.NamespacedName, parts []Part) map[Part]*missing {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since == nil {
		h.since = map[types.NamespacedName]map[Part]*missing{}
		h.beats = beats{hub: h.Guard.Live, clock: h.Clock, of: map[string]*beat{}}
	}
	was, now := h.since[service], make(map[Part]*missing, len(parts))
	for _, p := range parts {
		if now[p] = was[p]; now[p] == nil {
			now[p] = &missing{at: h.Clock.Now()}
		}
		withdrawn, seen := h.Departures.how(p)
		now[p].withdrawn, now[p].seen = now[p].withdrawn || withdrawn, now[p].seen || seen
	}
	delete(h.since, service)
	if len(now) > 0 {
		h.since[service] = now
	} else if len(h.since) == 0 {
		h.beats.forget()
	}
	return now
}

// keeps returns why the part is kept, nil if it isn't.
func (h *Hold) keeps(ctx context.Context, p Part, since *missing) error {
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
	switch {
	case !since.withdrawn && h.Unread != nil && h.Unread(p.Cluster):
		return errUnread
	case since.withdrawn || since.seen && member.Status.Phase == clustersetv1alpha1.MemberExpired: // the hub deletes the records of an Expired cluster
		return nil
	case member.Status.Phase == "" && h.Clock.Since(member.CreationTimestamp.Time) < h.AwaitRejoin:
		return errUnheard
	case !since.seen:
		return h.unproved(ctx, p.Cluster, member, since)
	case h.Clock.Since(since.at) < VanishedGrace:
		return errVanished
	}
	return nil
}

// unproved returns nil once a cluster's silence about a record that disappeared unseen proves that it gave it up.
func (h *Hold) unproved(ctx context.Context, cluster string, member *clustersetv1alpha1.MemberCluster, since *missing) error {
	missing, expired := h.Clock.Since(since.at), expiredSince(member)
	// Ask at different times, and not about records that their exporters are just restoring.
	heard := member.Status.Phase == clustersetv1alpha1.MemberReady && missing >= VanishedGrace+h.Spread && h.beats.since(ctx, cluster, since.at)
	if missing < unseenGrace || expired.IsZero() {
		since.expired = expired // until then, the MemberCluster may be the one from before the restore
	}
	switch {
	case missing < unseenGrace:
		return errVanished
	case heard || missing >= h.AwaitRejoin || !expired.IsZero() && !expired.Equal(since.expired):
		return nil
	}
	return errUnproved
}

// expiredSince identifies the moment from which a cluster is Expired, by the hub's clock. It is zero if the cluster isn't.
func expiredSince(member *clustersetv1alpha1.MemberCluster) time.Time {
	if member.Status.Phase != clustersetv1alpha1.MemberExpired {
		return time.Time{}
	}
	if c := meta.FindStatusCondition(member.Status.Conditions, clustersetv1alpha1.ConditionReady); c != nil {
		return c.LastTransitionTime.Time // of Suspect, which comes before
	}
	return member.CreationTimestamp.Time
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
