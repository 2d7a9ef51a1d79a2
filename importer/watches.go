package importer

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/hubcache"
)

// onHub finds records in the hub's cache.
type onHub struct {
	services  *hubcache.Index[*clustersetv1alpha1.ExportedService]
	endpoints *hubcache.Index[*clustersetv1alpha1.ExportedEndpoints]
	in        *hubcache.Index[*clustersetv1alpha1.ExportedService] // by the service's namespace
}

// The names are unique, because the exporter may index the same kinds.
const (
	indexService   = "importer.service"
	indexNamespace = "importer.namespace"
)

func newOnHub() onHub {
	return onHub{
		services:  hubcache.NewIndex(indexService, serviceOf[*clustersetv1alpha1.ExportedService]),
		endpoints: hubcache.NewIndex(indexService, serviceOf[*clustersetv1alpha1.ExportedEndpoints]),
		in:        hubcache.NewIndex(indexNamespace, func(s *clustersetv1alpha1.ExportedService) string { return s.Spec.ServiceNamespace }),
	}
}

// newHere finds EndpointSlices in this cluster's cache: those of the importer, and those of the cluster's own Services.
func newHere() *hubcache.Index[*discoveryv1.EndpointSlice] {
	return hubcache.NewIndex(indexService, func(o *discoveryv1.EndpointSlice) string {
		if key, ok := backedBy(o); ok {
			return key.String()
		}
		return serviceOf(o)
	})
}

// serviceOf returns the "namespace/name" of the service that an object belongs to, "" if it belongs to none.
func serviceOf[T client.Object](o T) string {
	if key, ok := desired.ServiceOf(o); ok {
		return key.String()
	}
	return ""
}

// backedBy returns the Service of this cluster to which another owner's EndpointSlice belongs.
func backedBy(o client.Object) (types.NamespacedName, bool) {
	name := o.GetLabels()[discoveryv1.LabelServiceName]
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != "" && !desired.Owned(o)
}

// sources returns the sources that enqueue services: three kinds on the hub, however many clusters there are, and every kind that the importer
// writes here, so that foreign changes and deletions are corrected. An element of places enqueues all.
func (i *importer) sources(r *reconciler, places <-chan event.GenericEvent) []source.Source {
	hub, local, own := i.hub.GetCache(), i.mgr.GetCache(), i.options.Cluster
	records := func(notes ...func(context.Context, change, queue)) handler.EventHandler {
		return noting{enqueueService(), r.turns.byCluster, notes}
	}
	members := noting{affectedBy(r), r.turns.byCluster, []func(context.Context, change, queue){r.returning.note, i.options.Facts.following.note}}
	exported := func(service func(client.Object) (types.NamespacedName, bool)) handler.EventHandler {
		return noting{exportedHere(r, own, service), r.turns.byUs, nil}
	}
	here := unheard{enqueueService(), r.local.echoes}
	all := []source.Source{
		source.Kind[client.Object](hub, &clustersetv1alpha1.ExportedService{}, records(r.quota.note)),
		source.Kind[client.Object](hub, &clustersetv1alpha1.ExportedEndpoints{}, records()),
		source.Kind[client.Object](hub, &clustersetv1alpha1.MemberCluster{}, members, memberChanged()),
		source.Kind[client.Object](hub, &clustersetv1alpha1.MemberCluster{}, allServices(r), networksChanged()),
		source.Kind[client.Object](local, &clustersetv1alpha1.MemberCluster{}, affectedBy(r), went()),
		source.Channel(places, allServices(r)),
		source.Kind(local, client.Object(r.local.imports.NewImport()), here),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, here),
		source.Kind[client.Object](local, &corev1.Service{}, here),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, exported(backedBy)),
		source.Kind[client.Object](local, &corev1.Service{}, exported(func(o client.Object) (types.NamespacedName, bool) {
			return client.ObjectKeyFromObject(o), !desired.Owned(o)
		})),
		source.Kind[client.Object](local, &corev1.Namespace{}, exportedInto(r.records), appearedOrWent()),
	}
	all = append(all, extendedSources(local)...)
	if i.options.Moved != nil {
		all = append(all, source.Channel(i.options.Moved, noting{affectedBy(r), r.turns.byCluster, nil}))
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
func exportedHere(r *reconciler, own string, service func(client.Object) (types.NamespacedName, bool)) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		key, ok := service(o)
		if !ok {
			return nil
		}
		record := client.ObjectKey{Namespace: api.MemberNamespace(own), Name: api.ExportedServiceName(key.Namespace, key.Name)}
		if err := r.hub.Get(ctx, record, &clustersetv1alpha1.ExportedService{}, client.UnsafeDisableDeepCopy); err != nil &&
			!slices.ContainsFunc(r.local.slices.Of(key.String()), func(s *discoveryv1.EndpointSlice) bool {
				return desired.Owned(s) && s.Labels[api.LabelSourceCluster] == own
			}) {
			return nil // it isn't exported, or its record follows with its own event
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
}

// affectedBy enqueues the services that a cluster exports. For this cluster it enqueues all services, because its location
// ranks them.
func affectedBy(r *reconciler) handler.EventHandler {
	return enqueueOf(r, func(o client.Object) string {
		if o.GetName() == r.options.Cluster {
			return ""
		}
		return o.GetName()
	})
}

// allServices enqueues all services.
func allServices(r *reconciler) handler.EventHandler {
	return enqueueOf(r, func(client.Object) string { return "" })
}

// exportedInto enqueues the services of a namespace.
func exportedInto(records onHub) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, s := range records.in.Of(o.GetName()) {
			if key, ok := desired.ServiceOf(s); ok {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
		}
		return requests
	})
}

// enqueueOf enqueues the services of the cluster that an object is about, or all if that is "": those that the hub has, and those that are kept
// although it has lost their records.
func enqueueOf(r *reconciler, about func(client.Object) string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var services clustersetv1alpha1.ExportedServiceList
		cluster, in := about(o), client.InNamespace(metav1.NamespaceAll)
		if cluster != "" {
			in = client.InNamespace(api.MemberNamespace(cluster))
		}
		if err := r.hub.List(ctx, &services, in, client.UnsafeDisableDeepCopy); err != nil {
			// A cache answers once it has synced, or when the process stops. Until then its own events enqueue everything.
			logf.FromContext(ctx).V(1).Info("Can't list the ExportedServices", "reason", err.Error())
			return nil
		}
		requests := make([]reconcile.Request, 0, len(services.Items))
		for i := range services.Items {
			if key, ok := desired.ServiceOf(&services.Items[i]); ok {
				requests = append(requests, reconcile.Request{NamespacedName: key})
			}
		}
		for _, key := range r.absences.Of(cluster) {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
		return requests
	})
}

// memberChanged passes changes that affect objects here: a cluster's location, networks and health, and when it leaves. Its
// status also changes in ways that affect none of them, such as a new version of its agent.
func memberChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*clustersetv1alpha1.MemberCluster), e.ObjectNew.(*clustersetv1alpha1.MemberCluster)
			return !equality.Semantic.DeepEqual(was.Spec, is.Spec) || was.Status.Phase != is.Status.Phase ||
				!slices.Equal(was.Status.Zones, is.Status.Zones) || was.Left() != is.Left() ||
				!was.ForgottenAt().Equal(is.ForgottenAt())
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
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
