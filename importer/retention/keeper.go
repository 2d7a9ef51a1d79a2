package retention

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
)

// Keeper finds out what Effective has to know, and remembers what no object says: since when a part is missing, and how its record went.
type Keeper struct {
	Trust       *HubTrust
	Hub, Here   client.Reader // caches
	Departures  *Departures
	AwaitRejoin time.Duration
	// Spread is how long to wait before asking the hub about a missing part that was not withdrawn, so that not all members ask at
	// once.
	Spread time.Duration
	// Unread reports whether some of a cluster's records haven't been read yet. Nil means that all have been.
	Unread func(cluster string) bool
	// Passed reports whether the watches of a cluster's records have passed a resource version.
	Passed func(cluster, version string) bool
	Clock  clock.PassiveClock

	mu    sync.Mutex
	since map[types.NamespacedName]map[Part]*Absence
	left  map[types.UID]time.Time // when each MemberCluster was first seen to say that its cluster has left
	beats beats
}

// Effective returns the records to use for a service, whose records are on the hub, and was last imported from last.
func (k *Keeper) Effective(ctx context.Context, service types.NamespacedName, hub, last Records) (Outcome, error) {
	parts := missing(service, hub, last)
	state := State{Absences: k.noted(service, parts), AwaitRejoin: k.AwaitRejoin, Spread: k.Spread}
	if len(parts) == 0 {
		return Outcome{Use: hub}, nil
	}
	if state.Untrusted = k.Trust.known(ctx); state.Untrusted != nil { // by the caches: many members would ask at once
		_ = k.Trust.MayDelete(ctx) // reports it
	} else if err := k.look(ctx, service, parts, &state); err != nil {
		return Outcome{}, err
	}
	state.doubt()
	o := Effective(hub, last, parts, state, k.Clock.Now())
	if len(o.renewed) > 0 {
		k.askWhetherRenewed(ctx, service, parts, &state, o.renewed)
		o = Effective(hub, last, parts, state, k.Clock.Now())
	}
	if o.doubtful || o.probe {
		state.Incomplete = k.Trust.MayDelete(ctx)
	}
	if o.doubtful && state.Incomplete != nil {
		o = Effective(hub, last, parts, state, k.Clock.Now())
	}
	return o, nil
}

// noted returns what is remembered of each missing part. It forgets parts that are back.
func (k *Keeper) noted(service types.NamespacedName, parts []Part) map[Part]*Absence {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.since == nil {
		k.since = map[types.NamespacedName]map[Part]*Absence{}
		k.beats = beats{hub: k.Trust.Live, passed: k.Passed, clock: k.Clock, of: map[string]*beat{}}
	}
	was, now := k.since[service], make(map[Part]*Absence, len(parts))
	for _, p := range parts {
		if now[p] = was[p]; now[p] == nil {
			now[p] = &Absence{Since: k.Clock.Now()}
		}
		withdrawn, seen := k.Departures.how(p)
		now[p].Withdrawn, now[p].Seen = now[p].Withdrawn || withdrawn, now[p].Seen || seen
	}
	delete(k.since, service)
	if len(now) > 0 {
		k.since[service] = now
	} else if len(k.since) == 0 {
		k.beats.forget()
	}
	return now
}

// Incomplete returns the services of which a part of a cluster, or of any cluster if it is "", is missing on the hub, as of when each was last
// looked at.
func (k *Keeper) Incomplete(cluster string) (all []types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for service, parts := range k.since {
		for p := range parts {
			if cluster == "" || p.Cluster == cluster {
				all = append(all, service)
				break
			}
		}
	}
	return all
}

// doubt makes unseen what went while the hub had lost its cluster, or this one. When a cluster joins such a hub again, its old heartbeat may
// still make it Ready, and its records come back a moment later, before its next heartbeat (C20).
func (s *State) doubt() {
	for p, a := range s.Absences {
		a.Lost = a.Lost || s.Untrusted != nil || s.Clusters[p.Cluster].Member == nil
		a.Seen = a.Seen && !a.Lost
	}
}

// look reads what the caches say of the parts' clusters.
func (k *Keeper) look(ctx context.Context, service types.NamespacedName, parts []Part, state *State) error {
	own := &clustersetv1alpha1.MemberCluster{}
	if err := k.Hub.Get(ctx, client.ObjectKey{Name: k.Trust.Cluster}, own); err != nil {
		return fmt.Errorf("get MemberCluster %s from the hub: %w", k.Trust.Cluster, err)
	}
	state.Clusters = map[string]Cluster{}
	for _, p := range parts {
		c, known := state.Clusters[p.Cluster]
		if !known {
			var err error
			if c.Member, err = memberOf(ctx, k.Hub, p.Cluster); err != nil {
				return fmt.Errorf("get MemberCluster %s from the hub: %w", p.Cluster, err)
			}
			if c.Copy, err = memberOf(ctx, k.Here, p.Cluster); err != nil {
				return fmt.Errorf("get MemberCluster %s: %w", p.Cluster, err)
			}
			if m := c.Member; m != nil {
				c.Left = k.leftAt(m)
				c.Apart = m.Name != own.Name && !communities.Share(own.Spec.Communities, m.Spec.Communities)
			}
			c.Unread = k.Unread != nil && k.Unread(p.Cluster)
			c.Heard = k.beats.heard(p.Cluster, service)
			state.Clusters[p.Cluster] = c
		}
		if a := state.Absences[p]; c.Member != nil {
			a.note(c.Member, k.Clock.Now())
		}
	}
	return nil
}

// memberOf returns a MemberCluster, nil if there is none.
func memberOf(ctx context.Context, from client.Reader, name string) (*clustersetv1alpha1.MemberCluster, error) {
	m := &clustersetv1alpha1.MemberCluster{}
	if err := from.Get(ctx, client.ObjectKey{Name: name}, m); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return m, nil
}

// leftAt returns when a MemberCluster was first seen to say that its cluster has left; zero if it doesn't.
func (k *Keeper) leftAt(member *clustersetv1alpha1.MemberCluster) time.Time {
	if !member.Left() {
		return time.Time{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == nil {
		k.left = map[types.UID]time.Time{}
	}
	if _, known := k.left[member.UID]; !known {
		now := k.Clock.Now()
		// One that is forgotten too early is only waited for once more.
		maps.DeleteFunc(k.left, func(_ types.UID, at time.Time) bool { return now.Sub(at) > rememberedFor })
		k.left[member.UID] = now
	}
	return k.left[member.UID]
}

// askWhetherRenewed finds out whether Ready clusters have renewed their Leases since their parts are missing.
func (k *Keeper) askWhetherRenewed(ctx context.Context, service types.NamespacedName, parts []Part, state *State, clusters []string) {
	asked := map[string]bool{}
	for _, name := range clusters {
		c := state.Clusters[name]
		if asked[name] || c.Member == nil || c.Member.Status.Phase != clustersetv1alpha1.MemberReady {
			continue
		}
		asked[name] = true
		since := time.Time{} // of the part that is missing for the least time
		for _, p := range parts {
			if a := state.Absences[p]; p.Cluster == name && !a.Seen && a.Since.After(since) {
				since = a.Since
			}
		}
		k.beats.ask(ctx, name, service, since)
		c.Heard = k.beats.heard(name, service)
		if at := k.beats.renewed(name, service); c.Heard.Before(since) && !at.IsZero() && !at.Before(since) && k.absent(ctx, name, parts) {
			c.Heard = at
		}
		state.Clusters[name] = c
	}
}

// absent reports whether the hub itself has none of a cluster's missing records. It is asked while the watches haven't passed the heartbeat that
// vouches for their absence: on a quiet hub that takes minutes.
func (k *Keeper) absent(ctx context.Context, cluster string, parts []Part) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	for _, p := range parts {
		if p.Cluster != cluster {
			continue
		}
		var record client.Object = &clustersetv1alpha1.ExportedEndpoints{}
		name := p.Record
		if name == "" {
			record, name = &clustersetv1alpha1.ExportedService{}, api.ExportedServiceName(p.Service.Namespace, p.Service.Name)
		}
		if err := k.Trust.Live.Get(ctx, client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: name}, record); !apierrors.IsNotFound(err) {
			return false
		}
	}
	return true
}

// Left returns nil if a cluster whose MemberCluster says that it has left can be considered gone.
func (k *Keeper) Left(member *clustersetv1alpha1.MemberCluster) error {
	return leaving(k.leftAt(member), k.Clock.Now())
}

// Lost returns a LostError if the importer has to wait for a cluster without a MemberCluster on the hub.
func (k *Keeper) Lost(ctx context.Context, cluster string) error {
	mirrored, err := memberOf(ctx, k.Here, cluster)
	if err != nil {
		return err
	}
	return lost(cluster, mirrored, k.AwaitRejoin, k.Clock.Now())
}
