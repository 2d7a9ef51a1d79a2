package importer

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/damping"
)

// returning makes clusters that are Ready again wait (D5). A drain is set by a person and takes effect at once.
type returning struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	of    map[string]*damping.Damper
}

func newReturning(c clock.PassiveClock) *returning {
	return &returning{clock: c, of: map[string]*damping.Damper{}}
}

// note records the phase of a MemberCluster of the hub, or that the cluster left.
func (r *returning) note(_ context.Context, c change, _ queue) {
	if m, there := c.is.(*clustersetv1alpha1.MemberCluster); there {
		r.phase(m.Name, m.Status.Phase)
	} else {
		r.forget(c.was.GetName())
	}
}

// phase records a cluster's phase.
func (r *returning) phase(cluster string, phase clustersetv1alpha1.MemberClusterPhase) {
	down := phase == clustersetv1alpha1.MemberSuspect || phase == clustersetv1alpha1.MemberExpired
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.of[cluster]
	if d == nil {
		d = &damping.Damper{}
		r.of[cluster] = d
	}
	d.Note(down, r.clock.Now())
}

// forget removes a cluster that left.
func (r *returning) forget(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, cluster)
}

// left returns how long the cluster must still be Ready, 0 if it may be used.
func (r *returning) left(cluster string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.of[cluster]; d != nil {
		return d.Left(r.clock.Now())
	}
	return 0
}
