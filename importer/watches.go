package importer

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// backedBy returns the Service of this cluster to which another owner's EndpointSlice belongs.
func backedBy(o client.Object) (types.NamespacedName, bool) {
	name := o.GetLabels()[discoveryv1.LabelServiceName]
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != "" && !desired.Owned(o)
}

// sources returns the sources that enqueue services: what is known of the hub, and every kind that the importer writes here, so that foreign changes
// and deletions are corrected. An element of everything enqueues all services.
func (i *importer) sources(r *reconciler, everything <-chan event.GenericEvent) []source.Source {
	local := i.mgr.GetCache()
	exported := func(service func(client.Object) (types.NamespacedName, bool)) handler.EventHandler {
		return exportedHere(r, service)
	}
	here := enqueueService()
	all := []source.Source{
		source.Func(func(_ context.Context, q queue) error {
			r.follow(q)
			return nil
		}),
		source.Kind[client.Object](local, &clustersetv1alpha1.MemberCluster{}, affectedBy(r), went()),
		source.Channel(everything, allServices(r)),
		source.Kind(local, client.Object(r.local.imports.NewImport()), here),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, here),
		source.Kind[client.Object](local, &corev1.Service{}, here),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, exported(backedBy)),
		source.Kind[client.Object](local, &corev1.Service{}, exported(func(o client.Object) (types.NamespacedName, bool) {
			return client.ObjectKeyFromObject(o), !desired.Owned(o)
		})),
		source.Kind[client.Object](local, &corev1.Namespace{}, exportedInto(r), appearedOrWent()),
	}
	all = append(all, extendedSources(local)...)
	if i.options.Moved != nil {
		all = append(all, source.Channel(i.options.Moved, affectedBy(r)))
	}
	if !r.skipGlobal() {
		all = append(all, r.globals.source())
	}
	return all
}

// enqueueService enqueues the service that an object belongs to.
func enqueueService() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if key, ok := desired.ServiceOf(o); ok {
			return []reconcile.Request{{NamespacedName: key}}
		}
		return nil
	})
}

// exportedHere enqueues the services of this cluster's objects if it exports them. A hub that has lost its data may not know for long; then they
// are those that were imported from this cluster.
func exportedHere(r *reconciler, service func(client.Object) (types.NamespacedName, bool)) handler.EventHandler {
	own := r.options.Cluster
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		key, ok := service(o)
		if !ok || r.hub.Export(own, key) == nil && !slices.ContainsFunc(r.local.slices.of(key.String()), func(s *discoveryv1.EndpointSlice) bool {
			return desired.Owned(s) && s.Labels[api.LabelSourceCluster] == own
		}) {
			return nil // it isn't exported, or its record follows with its own event
		}
		return requests(key)
	})
}

// affectedBy enqueues the services that a cluster exports. For this cluster it enqueues all services, because its location
// ranks them.
func affectedBy(r *reconciler) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if o.GetName() == r.options.Cluster {
			return requests(r.all()...)
		}
		return requests(r.keysOf(o.GetName())...)
	})
}

// allServices enqueues all services.
func allServices(r *reconciler) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return requests(r.all()...) })
}

// exportedInto enqueues the services of a namespace.
func exportedInto(r *reconciler) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return requests(r.hub.KeysIn(o.GetName())...)
	})
}

func requests(keys ...types.NamespacedName) []reconcile.Request {
	all := make([]reconcile.Request, len(keys))
	for i, key := range keys {
		all[i].NamespacedName = key
	}
	return all
}

// went passes deletions: a cluster that the hub has lost is given up by deleting the copy of its MemberCluster (C44).
func went() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// appearedOrWent passes namespaces that are created, deleted, or begin to be deleted.
func appearedOrWent() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
		},
	}
}
