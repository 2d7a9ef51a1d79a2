package importer

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func add(q queue, service types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: service}) }

// addLater adds a service that goes after those that this cluster changed.
func addLater(q queue, service types.NamespacedName) {
	if prioritized, is := q.(priorityqueue.PriorityQueue[reconcile.Request]); is {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: new(-1)}, reconcile.Request{NamespacedName: service})
		return
	}
	add(q, service)
}
