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
	here := enqueueService()
	all := []source.Source{
		source.Func(func(_ context.Context, q queue) error {
			r.follow(q)
			return nil
		}),
		source.Channel(everything, enqueue(func(client.Object) []types.NamespacedName { return r.all() })),
		source.Kind[client.Object](local, &clustersetv1alpha1.MemberCluster{}, enqueue(r.affectedBy), went()),
		source.Kind(local, client.Object(r.local.imports.NewImport()), here),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, here),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, enqueue(r.exportedHere)),
		source.Kind[client.Object](local, &corev1.Service{}, here),
		source.Kind[client.Object](local, &corev1.Service{}, enqueue(r.exportedHere)),
		source.Kind[client.Object](local, &corev1.Namespace{}, enqueue(func(o client.Object) []types.NamespacedName { return r.hub.KeysIn(o.GetName()) }), appearedOrWent()),
	}
	all = append(all, extendedSources(local)...)
	if i.options.Moved != nil {
		all = append(all, source.Channel(i.options.Moved, enqueue(r.affectedBy)))
	}
	if !r.noGlobals {
		all = append(all, source.Kind[client.Object](local, globalMetadata(), here))
	}
	return all
}

// enqueue enqueues services by what an event is about.
func enqueue(services func(client.Object) []types.NamespacedName) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (requests []reconcile.Request) {
		for _, key := range services(o) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	})
}

// enqueueService enqueues the service that an object of ours belongs to.
func enqueueService() handler.EventHandler {
	return enqueue(func(o client.Object) []types.NamespacedName {
		if key, ok := desired.ServiceOf(o); ok {
			return []types.NamespacedName{key}
		}
		return nil
	})
}

// exportedHere returns the service of an EndpointSlice or a Service of this cluster's own, if it exports that. A hub that has lost its data may not
// know for long; then it is exported if it was imported from this cluster.
func (r *reconciler) exportedHere(o client.Object) []types.NamespacedName {
	key, ok := backedBy(o)
	if _, service := o.(*corev1.Service); service {
		key, ok = client.ObjectKeyFromObject(o), !desired.Owned(o)
	}
	if !ok || r.hub.Export(r.options.Cluster, key) == nil && !slices.ContainsFunc(r.local.slices.of(key.String()), func(s *discoveryv1.EndpointSlice) bool {
		return desired.Owned(s) && s.Labels[api.LabelSourceCluster] == r.options.Cluster
	}) {
		return nil // it isn't exported, or its record follows with its own event
	}
	return []types.NamespacedName{key}
}

// affectedBy returns the services that a cluster exports. For this cluster they are all services, because its location ranks them.
func (r *reconciler) affectedBy(o client.Object) []types.NamespacedName {
	if o.GetName() == r.options.Cluster {
		return r.all()
	}
	return r.keysOf(o.GetName())
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
