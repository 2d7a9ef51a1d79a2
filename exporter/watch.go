package exporter

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/hubcache"
)

// indexSlices names the index of EndpointSlices by the Service's name.
const indexSlices = "exporter.serviceName"

// indexes finds the records of a service in the hub's cache: services of all members, for conflicts, but endpoints of this member only,
// because there are many times as many imports. The importer shares the cache, so the indexes' names say that they are the exporter's.
type indexes struct {
	services  *hubcache.Index[*clustersetv1alpha1.ExportedService]
	endpoints *hubcache.Index[*clustersetv1alpha1.ExportedEndpoints]
}

// addIndexes adds them, and the member's index of EndpointSlices that aren't imported.
func addIndexes(member, hub cluster.Cluster, name string) (indexes, error) {
	ctx := context.Background() // an index is added before anything runs
	own := api.MemberNamespace(name)
	bySlice := func(o client.Object) []string {
		if name := backed(o).Name; name != "" {
			return []string{name}
		}
		return nil
	}
	if err := member.GetFieldIndexer().IndexField(ctx, &discoveryv1.EndpointSlice{}, indexSlices, bySlice); err != nil {
		return indexes{}, fmt.Errorf("index EndpointSlices: %w", err)
	}
	i := indexes{
		services: hubcache.NewIndex("exporter.service", func(s *clustersetv1alpha1.ExportedService) string { return keyOfService(s).String() }),
		endpoints: hubcache.NewIndex("exporter.service", func(e *clustersetv1alpha1.ExportedEndpoints) string {
			if e.Namespace != own {
				return ""
			}
			return keyOfEndpoints(e).String()
		}),
	}
	return i, errors.Join(
		i.services.Add(ctx, hub.GetCache(), &clustersetv1alpha1.ExportedService{}),
		i.endpoints.Add(ctx, hub.GetCache(), &clustersetv1alpha1.ExportedEndpoints{}),
	)
}

// sources returns the sources that enqueue keys.
//
// The member's own sources are waited for before any key is reconciled; the hub's are not: while the hub is unreachable, an
// export should still report that, and a mark should still get its ServiceExport.
func sources(member, hub cache.Cache, export client.Object, name string, p *pass, invalidMarks handler.EventHandler) []source.Source {
	own := api.MemberNamespace(name)
	return []source.Source{
		source.Kind(member, export, keyed(client.ObjectKeyFromObject)),
		source.Kind(member, client.Object(&corev1.Service{}), keyed(client.ObjectKeyFromObject)),
		source.Kind(member, client.Object(&corev1.Namespace{}), servicesIn(member), markChanged()),
		source.Kind(member, client.Object(&corev1.Service{}), invalidMarks),
		source.Kind(member, client.Object(&corev1.Namespace{}), invalidMarks),
		source.Kind(member, client.Object(&discoveryv1.EndpointSlice{}), keyed(backed)),
		// Every member's, because a conflict is with another's.
		unwaited(source.Kind(hub, client.Object(&clustersetv1alpha1.ExportedService{}), keyed(func(o client.Object) types.NamespacedName {
			return keyOfService(o.(*clustersetv1alpha1.ExportedService))
		}))),
		// Only our own, to restore what someone else changed.
		unwaited(source.Kind(hub, client.Object(&clustersetv1alpha1.ExportedEndpoints{}), keyed(func(o client.Object) types.NamespacedName {
			if o.GetNamespace() != own {
				return types.NamespacedName{}
			}
			return keyOfEndpoints(o.(*clustersetv1alpha1.ExportedEndpoints))
		}))),
		source.TypedChannel(p.keys, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
			GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				q.Add(reconcile.Request{NamespacedName: e.Object})
			},
		}),
	}
}

// keyed turns an event into the key of the service it is about. The empty key means none.
func keyed(key func(client.Object) types.NamespacedName) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		k := key(o)
		if k.Name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: k}}
	})
}

// backed returns the Service of an EndpointSlice, without a name if there is none, or if the slice is imported.
func backed(slice client.Object) types.NamespacedName {
	if slice.GetLabels()[discoveryv1.LabelManagedBy] == api.EndpointSliceManagedBy {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName]}
}

// servicesIn turns an event of a namespace into the keys of its Services.
func servicesIn(member client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		var services corev1.ServiceList
		if err := member.List(ctx, &services, client.InNamespace(o.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // a cache answers once it has synced, and then each Service has an event of its own
		}
		requests := make([]reconcile.Request, 0, len(services.Items))
		for i := range services.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&services.Items[i])})
		}
		return requests
	})
}

// markChanged passes namespaces that get, have or lose the mark that exports their Services.
func markChanged() predicate.Predicate {
	marked := func(o client.Object) bool { return api.IsGlobal(o.GetLabels(), o.GetAnnotations()) }
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return marked(e.Object) },
		UpdateFunc:  func(e event.UpdateEvent) bool { return marked(e.ObjectOld) != marked(e.ObjectNew) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// unwaited hides that a source can be waited for. Its Start returns at once and continues in the background.
func unwaited(s source.Source) source.Source {
	return source.Func(s.Start)
}

// keyOfService returns the service that a record is about, by the record's name: we remove the records in our namespace,
// whatever they say of themselves.
func keyOfService(e *clustersetv1alpha1.ExportedService) types.NamespacedName {
	if namespace, name, ok := api.ParseExportedServiceName(e.Name); ok {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{Namespace: e.Spec.ServiceNamespace, Name: e.Spec.ServiceName}
}

func keyOfEndpoints(e *clustersetv1alpha1.ExportedEndpoints) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Spec.ServiceNamespace, Name: e.Spec.ServiceName}
}

// syncedFunc returns a function that reports whether the hub's records have been read. The indexes have created the informers,
// so asking for them costs nothing.
func syncedFunc(hub cache.Cache) func() bool {
	return func() bool {
		for _, o := range []client.Object{&clustersetv1alpha1.ExportedService{}, &clustersetv1alpha1.ExportedEndpoints{}, &clustersetv1alpha1.MemberCluster{}} {
			informer, err := hub.GetInformer(context.Background(), o, cache.BlockUntilSynced(false))
			if err != nil || !informer.HasSynced() {
				return false
			}
		}
		return true
	}
}
