package exporter

import (
	"context"
	"fmt"

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
	return collect(ctx, r.cluster, r.exports, r.hub)
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
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(clustersetv1alpha1.GroupVersion.WithKind(kind + "List"))
		// Version 0: whatever the API server has in memory. A record that is labelled later is found by the next process.
		inMemory := &client.ListOptions{Namespace: api.MemberNamespace(r.cluster), Raw: &metav1.ListOptions{ResourceVersion: "0"}}
		if err := r.live.List(ctx, &list, inMemory); err != nil {
			return fmt.Errorf("list %s: %w", kind, err)
		}
		for i := range list.Items {
			err := r.relabelOne(ctx, kind, client.ObjectKeyFromObject(&list.Items[i]))
			switch {
			case ctx.Err() != nil:
				return err
			case err != nil:
				log.FromContext(ctx).Info("Can't restore the labels of a record on the hub", "kind", kind, "record", list.Items[i].Name, "reason", err.Error())
			}
		}
	}
	return nil
}

func (r *reconciler) relabelOne(ctx context.Context, kind string, at client.ObjectKey) error {
	o := newRecord(kind)
	if err := r.hub.Get(ctx, at, o, client.UnsafeDisableDeepCopy); !apierrors.IsNotFound(err) {
		return err
	}
	o = newRecord(kind) // the one above may share memory with the cache
	if err := r.live.Get(ctx, at, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	var key types.NamespacedName
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		key = keyOfService(o)
	case *clustersetv1alpha1.ExportedEndpoints:
		key = keyOfEndpoints(o)
	}
	want := &metav1.PartialObjectMetadata{ObjectMeta: record.Meta(r.cluster, key, at.Name)}
	if labelled(o, want) {
		return nil
	}
	before := o.DeepCopyObject().(client.Object)
	o.SetLabels(labels.Merge(o.GetLabels(), want.Labels, nil))
	return r.hub.Patch(ctx, o, client.MergeFrom(before), client.FieldOwner(api.FieldManagerExporter))
}

func newRecord(kind string) client.Object {
	if kind == kindService {
		return &clustersetv1alpha1.ExportedService{}
	}
	return &clustersetv1alpha1.ExportedEndpoints{}
}
