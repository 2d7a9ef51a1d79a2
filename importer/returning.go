package importer

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

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

// note records a cluster's phase.
func (r *returning) note(cluster string, phase clustersetv1alpha1.MemberClusterPhase) {
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

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// observing wraps a handler of the hub's MemberClusters so that a phase is known before services are reconciled.
type observing struct {
	handler.EventHandler
	returning *returning
}

// Create implements handler.EventHandler.
func (o observing) Create(ctx context.Context, e event.CreateEvent, q queue) {
	o.note(e.Object)
	o.EventHandler.Create(ctx, e, q)
}

// Update implements handler.EventHandler.
func (o observing) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	o.note(e.ObjectNew)
	o.EventHandler.Update(ctx, e, q)
}

// Delete implements handler.EventHandler.
func (o observing) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	o.returning.forget(e.Object.GetName())
	o.EventHandler.Delete(ctx, e, q)
}

func (o observing) note(m client.Object) {
	if m, ok := m.(*clustersetv1alpha1.MemberCluster); ok {
		o.returning.note(m.Name, m.Status.Phase)
	}
}
