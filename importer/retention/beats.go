package retention

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
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
)

// beats finds out whether clusters have renewed their Leases since a certain time. It reads only those that are asked for: nobody watches
// the Leases, which change all the time. A renewal is a later renewTime in a later answer, so no clock is compared with another.
type beats struct {
	hub   client.Reader // the API server, not a cache
	clock clock.PassiveClock

	mu   sync.Mutex
	of   map[string]*beat
	deaf time.Time // when the hub last failed to answer
}

// beat is what is known of a cluster's Lease.
type beat struct {
	renewed time.Time // its renewTime, by that cluster's clock
	asked   time.Time // when it had that renewTime; zero: it has never been read
	heard   time.Time // it was renewed later than this
	tried   time.Time
	pause   time.Duration
}

// since reports whether the cluster is known to have renewed its Lease later than at. If not, it reads the Lease, unless it has just been
// read.
func (b *beats) since(ctx context.Context, cluster string, at time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := b.of[cluster]
	if of == nil {
		of = &beat{pause: beatPause}
		b.of[cluster] = of
	}
	if !of.heard.Before(at) {
		return true
	}
	now := b.clock.Now()
	if now.Sub(of.tried) < of.pause || now.Sub(b.deaf) < beatPause {
		return false
	}
	of.tried = now
	b.mu.Unlock()
	renewed, err := b.read(ctx, cluster)
	b.mu.Lock()
	switch {
	case err != nil:
		b.deaf = b.clock.Now()
		logf.FromContext(ctx).V(1).Info("Can't tell whether a cluster is heard", "cluster", cluster, "reason", err.Error())
		return false
	case !of.asked.IsZero() && renewed.After(of.renewed):
		of.heard, of.pause = of.asked, beatPause
	case !of.asked.IsZero():
		of.pause = min(2*of.pause, maxBeatPause)
	}
	of.renewed, of.asked = renewed, now
	return !of.heard.Before(at)
}

// heard returns the latest time after which the cluster is known to have renewed its Lease; zero if there is none.
func (b *beats) heard(cluster string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of := b.of[cluster]; of != nil {
		return of.heard
	}
	return time.Time{}
}

// read returns when a cluster says that it last renewed its Lease. It is zero if there is no Lease.
func (b *beats) read(ctx context.Context, cluster string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := b.hub.Get(ctx, client.ObjectKey{Namespace: api.MemberNamespace(cluster), Name: api.HeartbeatLease}, lease)
	if err != nil || lease.Spec.RenewTime == nil {
		return time.Time{}, client.IgnoreNotFound(err)
	}
	return lease.Spec.RenewTime.Time, nil
}

// forget drops what is known. It is for when nobody is asked about.
func (b *beats) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.of)
}
