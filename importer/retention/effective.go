package retention

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// Why a part of a service that the hub doesn't have is kept. Each resolves itself.
var (
	errVanished = errors.New("its record was deleted without being withdrawn; its exporter is about to write it again")
	errUnproved = errors.New("its record disappeared while this agent didn't watch the hub, which may have been restored from a backup; no heartbeat of the cluster has confirmed since that it is gone")
	errUnheard  = errors.New("the cluster has joined but sent no heartbeat yet, so its exports may not be on the hub")
	errLeaving  = errors.New("the cluster has just left")
	errUnread   = errors.New("the cluster's records haven't all been read yet: the hub gives the right to read them a moment after its MemberCluster's communities change")
	errSpread   = errors.New("waiting for a moment, so that not all members ask the hub at once")
)

const (
	// VanishedGrace is how long a part is kept after its record was seen to go, if its exporter didn't withdraw it. A running exporter
	// rewrites such a record within a second or two.
	VanishedGrace = 10 * time.Second
	// unseenGrace is how long a part is kept at least whose record disappeared unseen. The hub was probably unreachable for all members,
	// and restored from a backup. An exporter finds that out with its next heartbeat, at most 10 s later, and writes the missing records.
	// An importer's watches may have the backup's state one after another.
	unseenGrace = 20 * time.Second
	// leaveGrace is how long to wait before believing that a cluster has left. If all MemberClusters are being deleted, one after the
	// other, this cluster's is among them by then, and HubTrust keeps everything.
	leaveGrace = 3 * time.Second
	// vanishedRetry is when to check again whether a record is back, or its cluster has left.
	vanishedRetry = time.Second
)

// LostError means that the hub no longer knows a cluster, although nothing says that the cluster left.
type LostError struct {
	Cluster string
	Until   time.Time
}

func (e *LostError) Error() string {
	return fmt.Sprintf("the hub has lost %s, which hasn't left and hasn't joined again; what it exported is kept until %s",
		e.Cluster, e.Until.UTC().Format(time.RFC3339))
}

// Retry returns when to check again: periodically, and when the grace period ends.
func (e *LostError) Retry(now time.Time) time.Duration {
	return min(heldRetry, max(e.Until.Sub(now), time.Second))
}

// State is what is known at a moment, apart from the records.
type State struct {
	// Untrusted is why nothing at all may be deleted, even if it was withdrawn: the hub doesn't know this cluster.
	Untrusted error
	// Incomplete is why nothing may be deleted that wasn't withdrawn: the hub doesn't answer, or has lost records.
	Incomplete error
	// Absences has each missing part.
	Absences map[Part]*Absence
	// Clusters has each cluster of a missing part.
	Clusters map[string]Cluster
	// AwaitRejoin is how long to wait for a cluster that the hub has lost, or that isn't heard.
	AwaitRejoin time.Duration
	// Spread is how long to wait before asking the hub about a missing part that was not withdrawn.
	Spread time.Duration
}

// Absence is what is remembered of a missing part.
type Absence struct {
	Since time.Time // when it was first found missing
	// Withdrawn: its own exporter deleted the record. Seen: somebody did, and this agent was watching.
	Withdrawn, Seen bool
	// Lost: since then, the hub has had no MemberCluster of its cluster, or of this one. That its record was seen to go proves nothing.
	Lost bool
	// Expired is since when its cluster is Expired, according to the MemberCluster that the hub had soon after that; by the hub's clock.
	Expired time.Time
}

// note takes a look at the MemberCluster.
func (a *Absence) note(member *clustersetv1alpha1.MemberCluster, now time.Time) {
	if expired := expiredSince(member); now.Sub(a.Since) < unseenGrace || expired.IsZero() {
		a.Expired = expired // until then, the MemberCluster may be the one from before the restore
	}
}

// Cluster is what is known of a cluster.
type Cluster struct {
	Member *clustersetv1alpha1.MemberCluster // the hub's; nil: it has none
	Copy   *clustersetv1alpha1.MemberCluster // the one here
	Left   time.Time                         // when Member was first seen to say that the cluster has left
	Apart  bool                              // it shares no community with this one: this one may not read its records, and doesn't wait for them
	Unread bool                              // some of its records haven't been read yet
	Heard  time.Time                         // it is known to have renewed its Lease later than this, with its records of the service in order
}

// Outcome is what to do about what is missing.
type Outcome struct {
	// Use are the records to use: the hub's, and those of the parts that are kept.
	Use Records
	// Gone are the parts that are deleted.
	Gone []Part
	// Why is why one of the parts is kept, and Again when to look again; nil and 0 if none is.
	Why   error
	Again time.Duration

	// doubtful: a part is deleted that was not withdrawn, so the hub must be complete. probe: the hub should be asked whether it is,
	// although nothing is deleted now: if it lost a kind of record, and serves it again before anything would be deleted, that must have
	// been noticed. renewed are clusters of which it should be found out whether they have renewed their Leases.
	doubtful, probe bool
	renewed         []string
}

// Effective decides what the missing records of a service mean. It is pure, and the only place that decides that.
func Effective(hub, last Records, parts []Part, state State, now time.Time) (o Outcome) {
	var kept []Part
	for _, p := range parts {
		absence, cluster := state.Absences[p], state.Clusters[p.Cluster]
		why, age := state.Untrusted, now.Sub(absence.Since)
		if why == nil {
			why = state.keeps(p, absence, cluster, now)
			if why == nil && !absence.Withdrawn {
				switch {
				case age < state.Spread:
					why = errSpread
				case state.Incomplete != nil:
					why = state.Incomplete
				default:
					o.doubtful = true
				}
			}
			o.probe = o.probe || errors.Is(why, errVanished) && age < vanishedRetry && !absence.Seen ||
				(errors.Is(why, errVanished) || errors.Is(why, errUnread)) && state.Spread <= age && age < state.Spread+vanishedRetry
			if errors.Is(why, errUnproved) && cluster.Heard.Before(absence.Since) || errors.Is(why, errVanished) && !absence.Seen && age >= VanishedGrace+state.Spread {
				o.renewed = append(o.renewed, p.Cluster)
			}
		}
		if why == nil {
			o.Gone = append(o.Gone, p)
			continue
		}
		kept = append(kept, p)
		if again := state.again(why, age, now); o.Why == nil || again < o.Again {
			o.Again, o.Why = again, fmt.Errorf("%s: %w", p.Cluster, why)
		}
	}
	o.Use = hub.with(last, kept)
	return o
}

// keeps returns why a part is kept, as far as its own cluster is concerned; nil if it isn't. It distinguishes what was un-exported from
// what was lost:
//
//   - A cluster that left: its MemberCluster is deleted, and stays for a while to say so.
//   - A cluster that the hub lost, because the hub lost its data or was restored from a backup that is older than the membership:
//     its MemberCluster is missing. Its parts are kept until it has joined again and sent a heartbeat, because nothing says that
//     it stopped exporting.
//   - A cluster that shares no community with this one any more, or not yet: both MemberClusters say so.
//   - A cluster whose records can't be read at this moment, though it shares one.
//   - An un-export: the exporter withdraws a record before it deletes it.
//   - Records that someone deleted by hand: the exporter gets time to write them again.
//   - Records that were gone when this importer looked again. The exporter may have withdrawn them, or they may be younger than the backup
//     that the hub was restored from. The exporter brings that into order before it renews its Lease, or the Lease says what isn't.
func (s *State) keeps(p Part, absence *Absence, c Cluster, now time.Time) error {
	age := now.Sub(absence.Since)
	switch m := c.Member; {
	case m == nil:
		return lost(p.Cluster, c.Copy, s.AwaitRejoin, now)
	case m.Left():
		return leaving(c.Left, now)
	case c.Apart:
		return nil
	case !absence.Withdrawn && c.Unread:
		return errUnread
	case absence.Withdrawn || absence.Seen && m.Status.Phase == clustersetv1alpha1.MemberExpired: // the hub deletes the records of an Expired cluster
		return nil
	case m.Status.Phase == "" && now.Sub(m.CreationTimestamp.Time) < s.AwaitRejoin:
		return errUnheard
	case absence.Seen && age < VanishedGrace, !absence.Seen && age < unseenGrace:
		return errVanished
	case absence.Seen || age >= s.AwaitRejoin:
		return nil
	}
	heard := c.Member.Status.Phase == clustersetv1alpha1.MemberReady && !c.Heard.Before(absence.Since)
	if expired := expiredSince(c.Member); heard || !expired.IsZero() && !expired.Equal(absence.Expired) {
		return nil
	}
	return errUnproved
}

// again returns when to look again at a part that is kept for that reason.
func (s *State) again(why error, age time.Duration, now time.Time) time.Duration {
	var lost *LostError
	switch {
	case errors.As(why, &lost):
		return lost.Retry(now)
	case errors.Is(why, errVanished), errors.Is(why, errLeaving), errors.Is(why, errUnread) && age < s.Spread+vanishedRetry: // it may also be that the hub has lost the kind
		return vanishedRetry
	case errors.Is(why, errUnproved) && age < settleFor:
		return beatPause
	case errors.Is(why, errSpread):
		return s.Spread - age
	}
	return RetryAfter(why)
}

// leaving returns nil if a cluster that was first seen to have left at that time can be considered gone.
func leaving(since, now time.Time) error {
	if now.Sub(since) < leaveGrace {
		return errLeaving
	}
	return nil
}

// lost returns a LostError if a cluster without a MemberCluster on the hub is waited for. The copy of its MemberCluster records since when
// it has been missing. The importer doesn't wait if there is no copy, or if the cluster never joined but was only described.
func lost(cluster string, mirrored *clustersetv1alpha1.MemberCluster, await time.Duration, now time.Time) error {
	if mirrored == nil {
		return nil
	}
	since := now
	if c := meta.FindStatusCondition(mirrored.Status.Conditions, clustersetv1alpha1.ConditionOnHub); c != nil && c.Status == metav1.ConditionFalse {
		since = c.LastTransitionTime.Time
	}
	until := since.Add(await)
	if !desired.Owned(mirrored) || mirrored.Annotations[api.AnnotationJoined] == "" || !now.Before(until) {
		return nil
	}
	return &LostError{cluster, until}
}

// expiredSince identifies the moment from which a cluster is Expired, by the hub's clock. It is zero if the cluster isn't.
func expiredSince(member *clustersetv1alpha1.MemberCluster) time.Time {
	if member == nil || member.Status.Phase != clustersetv1alpha1.MemberExpired {
		return time.Time{}
	}
	if c := meta.FindStatusCondition(member.Status.Conditions, clustersetv1alpha1.ConditionReady); c != nil {
		return c.LastTransitionTime.Time // of Suspect, which comes before
	}
	return member.CreationTimestamp.Time
}
