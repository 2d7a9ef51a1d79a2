package importer

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// perTurn is how many services of a cluster may go before one that another cluster changed later. Fewer would only sort what eight workers finish
// at the same time.
const perTurn = 16

// turns shares the workers out among the source clusters: of two clusters, the one with fewer services waiting goes first. So a cluster that
// changes thousands at once doesn't delay the others (rule C78 of docs/spec/control-plane.md).
type turns struct {
	mu      sync.Mutex
	waiting map[string]int                    // services, by the cluster that changed them
	by      map[types.NamespacedName][]string // the clusters that changed a service
}

func newTurns() *turns {
	return &turns{waiting: map[string]int{}, by: map[types.NamespacedName][]string{}}
}

// enqueued notes that a cluster changed a service, and returns its priority in the queue: 0, or less if others of that cluster wait.
func (t *turns) enqueued(cluster string, service types.NamespacedName) (priority int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	priority = -t.waiting[cluster] / perTurn
	if !slices.Contains(t.by[service], cluster) {
		t.by[service] = append(t.by[service], cluster)
		t.waiting[cluster]++
	}
	return priority
}

// began notes that a service is being reconciled, so it no longer waits.
func (t *turns) began(service types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.by[service] {
		t.waiting[c]--
		if t.waiting[c] == 0 {
			delete(t.waiting, c)
		}
	}
	delete(t.by, service)
}

// inTurn wraps a handler of the hub's objects, so that what it enqueues waits for the turn of the object's cluster.
type inTurn struct {
	handler.EventHandler
	turns *turns
}

// Create implements handler.EventHandler.
func (h inTurn) Create(ctx context.Context, e event.CreateEvent, q queue) {
	h.EventHandler.Create(ctx, e, h.queue(e.Object, q))
}

// Update implements handler.EventHandler.
func (h inTurn) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	h.EventHandler.Update(ctx, e, h.queue(e.ObjectNew, q))
}

// Delete implements handler.EventHandler.
func (h inTurn) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	h.EventHandler.Delete(ctx, e, h.queue(e.Object, q))
}

func (h inTurn) queue(o client.Object, q queue) queue {
	cluster, ok := api.ClusterOfNamespace(o.GetNamespace())
	if m, is := o.(*clustersetv1alpha1.MemberCluster); is {
		cluster, ok = m.Name, true
	}
	prioritized, is := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !ok || !is {
		return q
	}
	return turnQueue{prioritized, h.turns, cluster}
}

// turnQueue is the queue for what one cluster changed.
type turnQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	turns   *turns
	cluster string
}

// Add implements workqueue.TypedInterface.
func (q turnQueue) Add(r reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, r) }

// AddWithOpts implements priorityqueue.PriorityQueue. The options' priority, which handlers lower for what was listed, is added to the cluster's.
func (q turnQueue) AddWithOpts(o priorityqueue.AddOpts, all ...reconcile.Request) {
	base := 0
	if o.Priority != nil {
		base = *o.Priority
	}
	for _, r := range all {
		o.Priority = new(base + q.turns.enqueued(q.cluster, r.NamespacedName))
		q.PriorityQueue.AddWithOpts(o, r)
	}
}
