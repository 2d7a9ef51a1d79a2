package importer

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// perTurn is how many services of a cluster may go before one that another cluster changed later. Fewer would only sort what eight workers finish
// at the same time.
const perTurn = 16

// us stands for this cluster where it changed a service itself. Its changes don't wait for a turn.
const us = ""

// turns shares the workers out among the source clusters: of two clusters, the one with fewer services waiting goes first, and none has all
// workers. So a cluster that changes thousands at once, or services that take long, doesn't delay the others (rule C78 of
// docs/spec/control-plane.md).
type turns struct {
	most int // how many services are reconciled at a time because one cluster changed them

	mu      sync.Mutex
	queue   priorityqueue.PriorityQueue[reconcile.Request] // that services were enqueued in; nil: none yet
	waiting map[string]int                                 // services, by the cluster that changed them
	by      map[types.NamespacedName][]string              // the clusters that changed a service
	running map[string]int                                 // services, by the cluster on whose account they are reconciled
	line    map[string][]types.NamespacedName              // services that a worker had taken, and that wait until another one of the cluster is done
	inLine  map[types.NamespacedName]bool
}

// newTurns returns turns for so many workers, of which a cluster may have three quarters.
func newTurns(workers int) *turns {
	return &turns{
		most: max(1, workers*3/4), waiting: map[string]int{}, by: map[types.NamespacedName][]string{},
		running: map[string]int{}, line: map[string][]types.NamespacedName{}, inLine: map[types.NamespacedName]bool{},
	}
}

// enqueued notes that a cluster changed a service, and returns its priority in the queue: 0, or less if others of that cluster wait.
func (t *turns) enqueued(cluster string, service types.NamespacedName) (priority int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cluster != us {
		priority = -t.waiting[cluster] / perTurn
	}
	if !slices.Contains(t.by[service], cluster) {
		t.by[service] = append(t.by[service], cluster)
		t.waiting[cluster]++
	}
	return priority
}

// begin notes that a service is being reconciled until end is called, on the account of the clusters that changed it. If none is known, because
// something changed that all services depend on, that is its only exporter. If all of these have as many workers as they may, begin returns
// nil, and the service is enqueued again when one of them is done.
func (t *turns) begin(service types.NamespacedName, onlyExporter string) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clusters := t.by[service]
	if len(clusters) == 0 && onlyExporter != "" {
		clusters = []string{onlyExporter}
	}
	mayRun := func(cluster string) bool { return cluster == us || t.running[cluster] < t.most }
	if t.queue != nil && len(clusters) > 0 && !slices.ContainsFunc(clusters, mayRun) {
		if !t.inLine[service] {
			t.inLine[service] = true
			t.line[clusters[0]] = append(t.line[clusters[0]], service)
		}
		return nil
	}
	for _, c := range t.by[service] {
		subtract(t.waiting, c)
	}
	delete(t.by, service)
	for _, c := range clusters {
		t.running[c]++
	}
	return func() { t.end(clusters) }
}

// end notes that a service has been reconciled on the account of some clusters, and enqueues as many services in each line as may begin. Of
// these, one may begin on nobody's account, if its records went meanwhile. So each end looks at all lines: after the last one none is left.
func (t *turns) end(clusters []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range clusters {
		subtract(t.running, c)
	}
	for c, line := range t.line {
		free := min(len(line), max(0, t.most-t.running[c])) // it may have more than most, for services that others changed too
		for _, service := range line[:free] {
			delete(t.inLine, service)
			t.queue.Add(reconcile.Request{NamespacedName: service})
		}
		if t.line[c] = line[free:]; free == len(line) {
			delete(t.line, c)
		}
	}
}

// subtract takes one away, and forgets a cluster that has none left.
func subtract(of map[string]int, cluster string) {
	of[cluster]--
	if of[cluster] <= 0 {
		delete(of, cluster)
	}
}

// in notes in which queue services wait.
func (t *turns) in(q priorityqueue.PriorityQueue[reconcile.Request]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = q
}

// byCluster returns the queue in which what an object of the hub enqueues waits for the turn of the object's cluster.
func (t *turns) byCluster(o client.Object, q queue) queue {
	cluster, ok := api.ClusterOfNamespace(o.GetNamespace())
	if m, is := o.(*clustersetv1alpha1.MemberCluster); is {
		cluster, ok = m.Name, true
	}
	if !ok {
		return q
	}
	return t.on(cluster, q)
}

// byUs returns the queue for what changed in this cluster. It goes first, whoever else changed the service.
func (t *turns) byUs(_ client.Object, q queue) queue { return t.on(us, q) }

func (t *turns) on(account string, q queue) queue {
	prioritized, is := q.(priorityqueue.PriorityQueue[reconcile.Request])
	if !is {
		return q
	}
	t.in(prioritized)
	return turnQueue{prioritized, t, account}
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
