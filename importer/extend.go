package importer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/clusterset/clusterset/importer/desired"
)

// gatherExtended reads this cluster's own Service if it asks for endpoints of other clusters; nil if it doesn't.
func (r *reconciler) gatherExtended(ctx context.Context, key types.NamespacedName) (*desired.Extended, error) {
	svc := &corev1.Service{}
	found, err := get(ctx, r.local, key.Namespace, key.Name, svc, client.UnsafeDisableDeepCopy)
	if err != nil || !found || !svc.DeletionTimestamp.IsZero() || !desired.AsksToBeExtended(svc) {
		return nil, err
	}
	namespace := &corev1.Namespace{}
	if _, err := get(ctx, r.local, "", key.Namespace, namespace, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("get namespace %s: %w", key.Namespace, err)
	}
	return &desired.Extended{
		Service: svc, Allowed: desired.MayExtend(key.Namespace, key.Name, namespace.Labels, r.options.ExtendEverywhere),
		Excluded: !r.options.imports(key.Namespace),
	}, nil
}

// applyExtending makes the slices that extend this cluster's own Service match what is wanted. The Service owns them: they go with it, also
// while no agent runs.
func (r *reconciler) applyExtending(ctx context.Context, in desired.Input, out desired.Output, cur desired.Current) error {
	r.report.notExtended(ctx, in.Key, in.Extended, out.NotExtended)
	if len(out.Extending)+len(cur.Extending) == 0 {
		return nil
	}
	var owner []metav1.OwnerReference
	if in.Extended != nil {
		owner = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: in.Extended.Service.Name, UID: in.Extended.Service.UID}}
	}
	return r.applySlices(ctx, desired.Output{Slices: out.Extending}, desired.Current{Slices: cur.Extending}, owner)
}

// extendedSources returns the sources that enqueue this cluster's Services that ask for endpoints of others, whether it exports them or not: with
// their own events, those of their EndpointSlices and, when it is opened or closed, those of their namespace.
func extendedSources(local cache.Cache) []source.Source {
	asking := enqueue(func(o client.Object) (keys []types.NamespacedName) { // of an update, both versions
		ctx, services := context.Background(), []corev1.Service{{}} // a cache answers at once
		switch o := o.(type) {
		case *corev1.Service:
			services[0] = *o
		case *discoveryv1.EndpointSlice:
			if key, ok := backedBy(o); !ok || local.Get(ctx, key, &services[0], client.UnsafeDisableDeepCopy) != nil {
				return nil // or the Service's own event follows
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
		source.Kind[client.Object](local, &corev1.Service{}, asking),
		source.Kind[client.Object](local, &discoveryv1.EndpointSlice{}, asking),
		source.Kind[client.Object](local, &corev1.Namespace{}, asking, predicate.LabelChangedPredicate{}),
	}
}
