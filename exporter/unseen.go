package exporter

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/labels"
	"github.com/clusterset/clusterset/internal/record"
)

// The agent's watches select records by their labels (internal/hubcache). A record of ours that has lost a label is missing in the cache and
// yet on the hub: it can't be created, and nothing would delete it. See C9 in docs/spec/control-plane.md.

// keys returns the keys of the first pass.
func (r *reconciler) keys(ctx context.Context) ([]types.NamespacedName, error) {
	if err := r.relabel(ctx); err != nil {
		return nil, err
	}
	if err := r.seat(ctx); err != nil {
		return nil, err
	}
	return r.collect(ctx)
}

// adopt writes a record that the hub has although our cache doesn't: the cache is behind, or the record has lost its labels.
func (r *reconciler) adopt(ctx context.Context, want client.Object) error {
	there := want.DeepCopyObject().(client.Object)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(want), there); err != nil {
		return err
	}
	want.SetResourceVersion(there.GetResourceVersion())
	want.SetLabels(labels.Merge(there.GetLabels(), want.GetLabels(), nil))
	return r.hub.Update(ctx, want, client.FieldOwner(api.FieldManagerExporter))
}

// relabel restores the labels of our records that the cache doesn't have, so that their keys are reconciled like all others.
func (r *reconciler) relabel(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	for _, kind := range []string{kindService, kindEndpoints} {
		// Version 0: whatever the API server has in memory. A record that is labelled later is found by the next process.
		list, err := r.listLive(ctx, kind, &metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		for i := range list {
			err := r.relabelOne(ctx, kind, client.ObjectKeyFromObject(&list[i]))
			switch {
			case ctx.Err() != nil:
				return err
			case err != nil:
				log.FromContext(ctx).Info("Can't restore the labels of a record on the hub", "kind", kind, "record", list[i].Name, "reason", err.Error())
			}
		}
	}
	return nil
}

func (r *reconciler) relabelOne(ctx context.Context, kind string, at client.ObjectKey) error {
	o, _ := newRecord(kind)
	if err := r.hub.Get(ctx, at, o, client.UnsafeDisableDeepCopy); !apierrors.IsNotFound(err) {
		return err
	}
	o, key := newRecord(kind) // the one above may share memory with the cache
	if err := r.live.Get(ctx, at, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := o.DeepCopyObject().(client.Object)
	o.SetLabels(labels.Merge(o.GetLabels(), record.Meta(r.cluster, key(), at.Name).Labels, nil))
	if maps.Equal(before.GetLabels(), o.GetLabels()) {
		return nil
	}
	return r.hub.Patch(ctx, o, client.MergeFrom(before), client.FieldOwner(api.FieldManagerExporter))
}

// newRecord returns an empty record, and a function that returns the service that it is about.
func newRecord(kind string) (o client.Object, key func() types.NamespacedName) {
	if kind == kindService {
		s := &clustersetv1alpha1.ExportedService{}
		return s, func() types.NamespacedName { return keyOfService(s) }
	}
	e := &clustersetv1alpha1.ExportedEndpoints{}
	return e, func() types.NamespacedName { return keyOfEndpoints(e) }
}
