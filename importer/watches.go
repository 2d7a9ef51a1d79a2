package importer

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func addNow(q queue, service types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: service}) }

// addLater adds a service that goes after those that this cluster changed.
func addLater(q queue, service types.NamespacedName) {
	if prioritized, is := q.(priorityqueue.PriorityQueue[reconcile.Request]); is {
		prioritized.AddWithOpts(priorityqueue.AddOpts{Priority: new(-1)}, reconcile.Request{NamespacedName: service})
		return
	}
	addNow(q, service)
}

// sources returns the sources that enqueue services: what is known of the hub, and every kind that the importer writes here, so that foreign changes
// and deletions are corrected. An element of everything enqueues all services.
func (r *reconciler) sources(local cache.Cache, everything <-chan event.GenericEvent) []source.Source {
	here, by := enqueueService(), r.bySomebodyElse()
	all := []source.Source{
		source.Func(func(_ context.Context, q queue) error {
			r.follow(q)
			return nil
		}),
		source.Channel(everything, enqueue(func(client.Object) []types.NamespacedName { return r.all() })),
		source.Kind[client.Object](local, &clustersetv1alpha1.MemberCluster{}, enqueue(r.affectedBy), went()),
		source.Kind(local, client.Object(r.local.imports.NewImport()), here, by),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, here, by),
		source.Kind[client.Object](local, &corev1.Service{}, here, by),
		source.Kind[client.Object](local, &corev1.Service{}, enqueue(func(o client.Object) []types.NamespacedName {
			return []types.NamespacedName{client.ObjectKeyFromObject(o)} // ours may take its place
		}), went()),
		source.Kind[client.Object](local, &corev1.Namespace{}, enqueue(func(o client.Object) []types.NamespacedName {
			return slices.DeleteFunc(r.all(), func(key types.NamespacedName) bool { return key.Namespace != o.GetName() })
		}), appearedOrWent()),
	}
	all = append(all, r.ownSources(local)...)
	if r.options.Moved != nil {
		all = append(all, source.Channel(r.options.Moved, enqueue(r.affectedBy)))
	}
	if !r.noGlobals {
		all = append(all, source.Kind[client.Object](local, globalMetadata(), here, by))
	}
	return all
}

// follow enqueues services as what is known of the hub changes. What another cluster changes goes through its account (C39), but for what goes.
func (r *reconciler) follow(q queue) {
	r.accounts.add = func(service types.NamespacedName) { addLater(q, service) }
	for _, m := range r.hub.Members() { // the records bring everything at the start
		r.clusters.look(m.Name, r.hub)
	}
	r.hub.OnMember(func(name string) { r.followMember(q, name) })
	r.hub.OnRecords(func(cluster string, key types.NamespacedName) {
		if e := r.hub.Export(cluster, key); cluster == r.options.Cluster || e == nil || e.Withdrawn {
			addNow(q, key)
			return
		}
		r.accounts.changed(cluster, key)
	})
}

func (r *reconciler) followMember(q queue, name string) {
	c := r.clusters.look(name, r.hub)
	switch {
	case c.networks, c.place && name == r.options.Cluster, c.now && name == r.options.Cluster:
		for _, key := range r.all() {
			addNow(q, key)
		}
	case c.now:
		for _, key := range r.keysOf(name) {
			addNow(q, key)
		}
	case c.place:
		for _, key := range r.keysOf(name) {
			r.accounts.changed(name, key)
		}
	}
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

// bySomebodyElse leaves out the events that show an object as its service's last reconcile wrote it.
func (r *reconciler) bySomebodyElse() predicate.Predicate {
	is := func(o client.Object) bool {
		key, ok := desired.ServiceOf(o)
		return !ok || !r.memories.wrote(key, o.GetResourceVersion())
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return is(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return is(e.ObjectNew) },
	}
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

// keysOf returns the services that a cluster exports, and those that are kept although the hub has lost their records.
func (r *reconciler) keysOf(cluster string) []types.NamespacedName {
	return append(r.hub.Keys(cluster), r.absences.Of(cluster)...)
}

// all returns the services that any cluster exports, or that are kept.
func (r *reconciler) all() []types.NamespacedName { return append(r.hub.All(), r.absences.Of("")...) }

// ownSources returns the sources that enqueue what this cluster exports, and its Services that ask for endpoints of others, whether it exports them or
// not: with their own events, those of their EndpointSlices and, when it is opened or closed, those of their namespace.
func (r *reconciler) ownSources(local cache.Cache) []source.Source {
	own := enqueue(func(o client.Object) []types.NamespacedName { // of an update, both versions
		keys := r.exportedHere(o)
		ctx, services := context.Background(), []corev1.Service{{}} // a cache answers at once
		switch o := o.(type) {
		case *corev1.Service:
			services[0] = *o
		case *discoveryv1.EndpointSlice:
			if key, ok := backedBy(o); !ok || local.Get(ctx, key, &services[0], client.UnsafeDisableDeepCopy) != nil {
				return keys // or the Service's own event follows
			}
		case *corev1.Namespace:
			var all corev1.ServiceList
			_ = local.List(ctx, &all, client.InNamespace(o.Name), client.UnsafeDisableDeepCopy) // or it is stopping
			services = all.Items
		}
		for i := range services {
			if desired.AsksToBeExtended(&services[i]) {
				keys = append(keys, client.ObjectKeyFromObject(&services[i]))
			}
		}
		return keys
	})
	return []source.Source{
		source.Kind[client.Object](local, &corev1.Service{}, own),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, own),
		source.Kind[client.Object](local, &corev1.Namespace{}, own, predicate.LabelChangedPredicate{}),
	}
}

// went passes deletions: a cluster that the hub has lost is given up by deleting the copy of its MemberCluster (C44).
func went() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// appearedOrWent passes namespaces that are created, deleted, or begin to be deleted, and whose label for Services of services' names changes.
func appearedOrWent() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
				e.ObjectOld.GetLabels()[api.KeyOwnNames] != e.ObjectNew.GetLabels()[api.KeyOwnNames]
		},
	}
}
