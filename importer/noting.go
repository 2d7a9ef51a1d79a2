package importer

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// change is what an event says of an object: was is nil if it is new, is if it is gone. unseen means that nobody saw it go.
type change struct {
	was, is client.Object
	unseen  bool
}

// object is the object, as it is or was last.
func (c change) object() client.Object {
	if c.is != nil {
		return c.is
	}
	return c.was
}

// noting wraps a handler, so that what an event says is known before services are enqueued.
type noting struct {
	handler.EventHandler
	in    func(client.Object, queue) queue // the queue for what the object's change enqueues, by whose turn it is
	notes []func(context.Context, change, queue)
}

func (n noting) note(ctx context.Context, c change, q queue) queue {
	for _, note := range n.notes {
		note(ctx, c, q)
	}
	return n.in(c.object(), q)
}

// Create implements handler.EventHandler.
func (n noting) Create(ctx context.Context, e event.CreateEvent, q queue) {
	n.EventHandler.Create(ctx, e, n.note(ctx, change{is: e.Object}, q))
}

// Update implements handler.EventHandler.
func (n noting) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	n.EventHandler.Update(ctx, e, n.note(ctx, change{was: e.ObjectOld, is: e.ObjectNew}, q))
}

// Delete implements handler.EventHandler.
func (n noting) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	n.EventHandler.Delete(ctx, e, n.note(ctx, change{was: e.Object, unseen: e.DeleteStateUnknown}, q))
}

// Generic implements handler.EventHandler. Nothing is new of the object.
func (n noting) Generic(ctx context.Context, e event.GenericEvent, q queue) {
	n.EventHandler.Generic(ctx, e, n.in(e.Object, q))
}
