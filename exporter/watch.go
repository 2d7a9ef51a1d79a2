package exporter

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/door/store"
)

// indexSlices names the index of EndpointSlices by the Service's name.
const indexSlices = "exporter.serviceName"

// addIndex adds the member's index of EndpointSlices that aren't imported.
func addIndex(member cluster.Cluster) error {
	bySlice := func(o client.Object) []string {
		if name := backed(o).Name; name != "" {
			return []string{name}
		}
		return nil
	}
	ctx := context.Background() // an index is added before anything runs
	if err := member.GetFieldIndexer().IndexField(ctx, &discoveryv1.EndpointSlice{}, indexSlices, bySlice); err != nil {
		return fmt.Errorf("index EndpointSlices: %w", err)
	}
	return nil
}

// sources returns the sources that enqueue keys.
//
// The member's own sources are waited for before any key is reconciled; the hub isn't: while it is unreachable, an
// export should still report that, and a mark should still get its ServiceExport. Of the hub, our own records count, to restore what someone
// else changed, and other members' records of what is exported here, because a conflict is with one of them.
func (r *reconciler) sources(member cache.Cache, hub *store.Store) []source.Source {
	return []source.Source{
		source.Kind[client.Object](member, r.exports.version.NewExport(), keyed(client.ObjectKeyFromObject)),
		source.Kind(member, client.Object(&corev1.Service{}), keyed(client.ObjectKeyFromObject)),
		source.Kind(member, client.Object(&corev1.Namespace{}), servicesIn(member)),
		source.Kind(member, client.Object(&discoveryv1.EndpointSlice{}), keyed(backed)),
		source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			hub.OnRecords(func(cluster string, key types.NamespacedName) {
				if cluster == r.cluster || hub.Export(r.cluster, key) != nil {
					q.Add(reconcile.Request{NamespacedName: key})
				}
			})
			return nil
		}),
		source.TypedChannel(r.pass.keys, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
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

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
