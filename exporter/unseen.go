package exporter

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/record"
)

// The agent's watches select records by their labels (internal/hubcache). A record of ours that has lost a label is missing in the cache and
// yet on the hub: it can't be created, and nothing would delete it. See C9 in docs/spec/control-plane.md.

// keys returns the keys of the first pass.
func (r *reconciler) keys(ctx context.Context) ([]types.NamespacedName, error) {
	if err := r.revealAll(ctx); err != nil {
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
	return r.hub.Update(ctx, want, client.FieldOwner(api.FieldManagerExporter))
}

// revealAll is reveal for whatever the hub has.
func (r *reconciler) revealAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	// Version 0: whatever the API server has in memory. What appears later is found when the hub was away, or by the next process.
	there, err := r.there(ctx, &metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	return r.reveal(ctx, there)
}

// reveal lets our records that the hub has and our cache doesn't come into it, so that their keys are reconciled like all others: it restores the
// label of those that have none, and has the watches select the namespaces of the rest.
func (r *reconciler) reveal(ctx context.Context, there sets.Set[version]) error {
	unseen := false
	for v := range there {
		at := client.ObjectKey{Namespace: api.MemberNamespace(r.cluster), Name: v.name}
		o, _ := newRecord(v.kind)
		if err := r.hub.Get(ctx, at, o, client.UnsafeDisableDeepCopy); !apierrors.IsNotFound(err) {
			continue
		}
		unseen = true
		if v.namespace != "" {
			continue
		}
		err := r.relabel(ctx, v.kind, at)
		switch {
		case ctx.Err() != nil:
			return err
		case err != nil:
			log.FromContext(ctx).Info("Can't restore the labels of a record on the hub", "kind", v.kind, "record", v.name, "reason", err.Error())
		}
	}
	if unseen {
		signal(r.unseen)
	}
	return nil
}

// relabel restores the labels of a record on the hub.
func (r *reconciler) relabel(ctx context.Context, kind string, at client.ObjectKey) error {
	o, key := newRecord(kind)
	if err := r.live.Get(ctx, at, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	before := o.DeepCopyObject().(client.Object)
	o.SetLabels(record.Meta(r.cluster, key(), at.Name).Labels)
	if labelled(before, o) {
		return nil
	}
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // see stripRecords
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
