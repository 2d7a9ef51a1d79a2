package retention

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
)

const (
	// beatPause is how long to wait before a cluster's Lease is read again, or any Lease after the hub didn't answer. While a Lease isn't
	// renewed, the pause doubles each time, up to maxBeatPause.
	beatPause    = 5 * time.Second
	maxBeatPause = time.Minute
	// maxPassing is how long to wait for the watches to pass a renewal before a later one is looked for. Bookmarks come once a minute.
	maxPassing = 2 * maxBeatPause
)

// beats finds out whether clusters have renewed their Leases since a certain time, with their records in order. It reads only those that are
// asked for: nobody watches the Leases, which change all the time. A renewal is a later renewTime in a later answer, so no clock is compared
// with another.
//
// That proves nothing of services that the Lease says are incomplete, nor of any while the cache of the records is older than the Lease: what
// was written before the renewal may just not have arrived.
type beats struct {
	hub    client.Reader // the API server, not a cache
	passed func(cluster, version string) bool
	clock  clock.PassiveClock

	mu   sync.Mutex
	of   map[string]*beat
	deaf time.Time // when the hub last failed to answer
}

// beat is what is known of a cluster's Lease.
type beat struct {
	renewed time.Time // its renewTime, by that cluster's clock
	asked   time.Time // when it had that renewTime; zero: it has never been read
	proof   renewal   // the last one that the watches have passed
	next    renewal   // the last one, if they haven't yet
	tried   time.Time
	pause   time.Duration
}

// renewal is a state of a Lease that is known to be renewed.
type renewal struct {
	after      time.Time // it was renewed later than this
	version    string    // resource version
	incomplete string    // api.AnnotationIncomplete
}

// covers reports whether the cluster's records of a service were in order then.
func (r renewal) covers(service types.NamespacedName) bool {
	return r.incomplete != api.IncompleteAll && !slices.Contains(strings.Split(r.incomplete, ","), service.String())
}

// heard returns the latest time after which a cluster is known to have renewed its Lease with its records of a service in order; zero if there
// is none.
func (b *beats) heard(cluster string, service types.NamespacedName) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of[cluster]
	if of == nil {
		return time.Time{}
	}
	if !of.next.after.IsZero() && b.passed(cluster, of.next.version) {
		of.proof, of.next = of.next, renewal{}
	}
	if of.proof.after.IsZero() || !of.proof.covers(service) {
		return time.Time{}
	}
	return of.proof.after
}

// renewed returns the same, whether or not the watches have passed the renewal.
func (b *beats) renewed(cluster string, service types.NamespacedName) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.of[cluster]; of != nil && of.next.covers(service) {
		return of.next.after
	}
	return time.Time{}
}

// ask reads the Lease of a cluster, unless it has just been read, or was renewed later than at with its records of the service in order, even if
// the watches are yet to pass that.
func (b *beats) ask(ctx context.Context, cluster string, service types.NamespacedName, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of[cluster]
	if of == nil {
		of = &beat{pause: beatPause}
		b.of[cluster] = of
	}
	if !of.proof.after.Before(at) && of.proof.covers(service) {
		return
	}
	now := b.clock.Now()
	passing := !of.next.after.Before(at) && of.next.covers(service) && now.Sub(of.asked) < maxPassing
	if passing || now.Sub(of.tried) < of.pause || now.Sub(b.deaf) < beatPause {
		return
	}
	of.tried = now
	b.mu.Unlock()
	renewed, is, err := b.read(ctx, cluster)
	b.mu.Lock()
	switch {
	case err != nil:
		b.deaf = b.clock.Now()
		logf.FromContext(ctx).V(1).Info("Can't tell whether a cluster is heard", "cluster", cluster, "reason", err.Error())
		return
	case !of.asked.IsZero() && renewed.After(of.renewed):
		is.after = of.asked
		of.next, of.pause = is, beatPause
	case !of.asked.IsZero():
		of.pause = min(2*of.pause, maxBeatPause)
	}
	of.renewed, of.asked = renewed, now
}

// read returns when a cluster says that it last renewed its Lease, and what it said then. It is zero if there is no Lease.
func (b *beats) read(ctx context.Context, cluster string) (time.Time, renewal, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := b.hub.Get(ctx, client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}, lease)
	if err != nil || lease.Spec.RenewTime == nil {
		return time.Time{}, renewal{}, client.IgnoreNotFound(err)
	}
	incomplete, said := lease.Annotations[api.AnnotationIncomplete]
	if !said {
		incomplete = api.IncompleteAll
	}
	return lease.Spec.RenewTime.Time, renewal{version: lease.ResourceVersion, incomplete: incomplete}, nil
}

// forget drops what is known. It is for when nobody is asked about.
func (b *beats) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.of)
}
