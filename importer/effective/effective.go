// Package effective decides which records of a service count: those on the hub, and for parts of an import that the hub has no record of, those
// that they were imported from last. That a record is missing says nothing by itself (C41 and C42 of docs/spec/control-plane.md).
package effective

import (
	"time"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/door"
)

const (
	// patience is for how long a part without a record stays while its cluster is Ready: whoever could say why has had the time.
	patience = 24 * time.Hour
	// roomEvery is how often it is looked whether a part without a record still has room beside those with one (C47).
	roomEvery = 10 * time.Minute
)

// State is what decides about parts without a record, apart from the records.
type State struct {
	Now time.Time
	// Known is whether the hub has a MemberCluster of this cluster that doesn't say that it has left. Nothing goes otherwise.
	Known bool
	// Read is since when the hub has been read without a break; zero: it isn't at the moment.
	Read time.Time
	// Clusters has each cluster of a part without a record.
	Clusters map[string]Cluster
	// Absent is since when each part has had no record while its cluster was Ready.
	Absent map[string]time.Time
	// Full reports whether a cluster's part has no room beside those with records (C47). Nil: all have.
	Full func(cluster string) bool
}

// Cluster is what is known of a cluster.
type Cluster struct {
	Member *clustersetv1alpha1.MemberCluster // the hub's; nil: it has none
	Here   *clustersetv1alpha1.MemberCluster // the one here; nil: there is none
	Apart  bool                              // it shares no community with this one
	Unread bool                              // its records haven't all been read yet
}

// Outcome is what to use.
type Outcome struct {
	Use Records
	// Unconfirmed are the clusters whose parts stay without a record, sorted.
	Unconfirmed []string
	// Again is when to look again without an event; 0: never.
	Again time.Duration
}

// Effective applies the one rule about parts that the hub has no record of (C41). last are the records that the service was imported from last. It
// is pure.
func Effective(hub, last Records, s State) Outcome {
	o := Outcome{Use: hub.clone()}
	for _, was := range last.Exports {
		cluster := was.Cluster
		if is := hub.Export(cluster); is != nil {
			o.Use.keep(last, cluster, func(e *door.Endpoints) bool { return lists(is, e) })
			continue
		}
		if s.goes(cluster, was.Revision, hub) {
			o.Use.drop(cluster)
			continue
		}
		o.Use.Exports = append(o.Use.Exports, was)
		o.Use.keep(last, cluster, func(*door.Endpoints) bool { return true })
		if !s.Clusters[cluster].Unread {
			o.Unconfirmed = append(o.Unconfirmed, cluster)
		}
		if again := s.again(cluster); again > 0 && (o.Again == 0 || again < o.Again) {
			o.Again = again
		}
	}
	return o
}

// goes reports whether a part without a record goes, which was imported in that revision.
func (s *State) goes(cluster string, revision int64, hub Records) bool {
	c := s.Clusters[cluster]
	withdrawn, said := hub.Withdrawn[cluster]
	switch {
	case !s.Known:
		return false
	case Gone(c.Member, c.Here), c.Apart, c.forgotten(revision), said && withdrawn >= revision:
		return true
	case c.Unread:
		return false
	case s.Full != nil && s.Full(cluster):
		return true
	}
	return !s.Read.IsZero() && s.until(cluster) <= 0
}

// until returns how much longer a part without a record stays, if nothing changes.
func (s *State) until(cluster string) time.Duration {
	since := s.Absent[cluster]
	if s.Read.After(since) {
		since = s.Read
	}
	return since.Add(patience).Sub(s.Now)
}

// again returns when to look again without an event: when the day is over, and now and then whether there is still room.
func (s *State) again(cluster string) time.Duration {
	if left := s.until(cluster); s.Clusters[cluster].Ready() && left > 0 {
		return min(left, roomEvery)
	}
	return roomEvery
}

// Ready reports whether the hub hears the cluster.
func (c Cluster) Ready() bool {
	return c.Member != nil && c.Member.Status.Phase == clustersetv1alpha1.MemberReady
}

// forgotten reports whether the hub process has forgotten the cluster later than it wrote that revision.
func (c Cluster) forgotten(revision int64) bool {
	if c.Member == nil {
		return false
	}
	at := c.Member.ForgottenAt()
	return !at.IsZero() && at.UnixMilli() > revision
}

// Gone reports whether a cluster is gone, so that nothing of it stays (rules C25 and C44 of docs/spec/control-plane.md). hub is its MemberCluster on
// the hub, and here the one in this cluster: our copy, the hub's own if this cluster is the hub, or a user's. Each is nil if there is none.
//
// A cluster that says that it has left is gone, unless our copy is of another MemberCluster: then the hub was restored from a backup in which an
// earlier one had left. One that is missing on the hub stays while there is a copy.
func Gone(hub, here *clustersetv1alpha1.MemberCluster) bool {
	copied := here != nil && desired.Owned(here)
	switch {
	case hub == nil:
		return !copied
	case copied:
		return hub.Left() && here.Annotations[api.AnnotationHubUID] == string(hub.UID)
	}
	return hub.Left()
}
