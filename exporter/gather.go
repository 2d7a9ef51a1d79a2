package exporter

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
)

// source reads the member's objects of a service.
func (r *reconciler) source(ctx context.Context, key types.NamespacedName) (src Source, err error) {
	src = Source{Cluster: r.cluster, Key: key, Excluded: !r.from.Has(key.Namespace)}
	if p := r.visible.peers.Load(); p != nil {
		src.Known = p.known
	}
	var svc corev1.Service
	switch err := r.local.Get(ctx, key, &svc); {
	case err == nil:
		src.Service = &svc
	case !apierrors.IsNotFound(err):
		return src, fmt.Errorf("get Service %s: %w", key, err)
	}
	if src.Export, err = r.exports.get(ctx, key); err != nil {
		return src, err
	}
	if src.Marked, err = r.marked(ctx, key.Namespace); err != nil {
		return src, err
	}
	if src.Service == nil || src.Export == nil {
		return src, nil
	}
	src.Slices, err = r.slices(ctx, key)
	return src, err
}

// marked reports whether a namespace has the mark that exports its Services.
func (r *reconciler) marked(ctx context.Context, name string) (bool, error) {
	var ns corev1.Namespace
	if err := r.local.Get(ctx, client.ObjectKey{Name: name}, &ns, client.UnsafeDisableDeepCopy); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return api.IsGlobal(ns.Labels, ns.Annotations), nil
}

// slices reads the EndpointSlices of a Service.
func (r *reconciler) slices(ctx context.Context, key types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	var all discoveryv1.EndpointSliceList
	if err := r.local.List(ctx, &all, client.InNamespace(key.Namespace), client.MatchingFields{indexSlices: key.Name}); err != nil {
		return nil, fmt.Errorf("list EndpointSlices of Service %s: %w", key, err)
	}
	return all.Items, nil
}

// records returns the hub's records of a service: our own, and what those of every other member say, for the conflicts.
func (r *reconciler) records(key types.NamespacedName, live *snapshot) (have Records, others []*door.Export) {
	for _, part := range r.onHub.Service(key) {
		if part.Cluster != r.cluster && part.Export != nil {
			others = append(others, part.Export)
		}
	}
	if live != nil {
		return live.Records, others
	}
	export, endpoints := r.onHub.Own(key)
	have.Service = export.DeepCopy()
	for _, e := range endpoints {
		have.Endpoints = append(have.Endpoints, *e)
	}
	return have, others
}

// full reports whether as many services of a namespace are on the hub as are exported from one. Those that are being written aren't there yet, so it
// may become a few more. Rule C60 of docs/spec/control-plane.md.
func (r *reconciler) full(namespace string) bool {
	records, _ := r.onHub.OwnRecords()
	n := 0
	for _, s := range records {
		if s.Exports() && s.Spec.ServiceNamespace == namespace {
			n++
		}
	}
	return n >= r.perNamespace
}

// gatherExternal reads what the Service's external addresses are found with, also while only its ServiceExport is gone. done is called when they
// have been.
func (r *reconciler) gatherExternal(src *Source, have Records) (done func()) {
	src.External.Last = have.Endpoints
	if m := r.onHub.Member(r.cluster); m != nil {
		src.External.CIDRs = m.Spec.ExternalCIDRs
	}
	if src.Service != nil && (src.Export != nil || have.Service != nil) && hasNodePort(src.Service) {
		src.External.Nodes = r.nodes.All()
	}
	src.External.Resolve, done = r.names.resolve(src.Key)
	return done
}

// everything returns all services that have a ServiceExport here or a record on the hub, or of which the hub may lack that they are withdrawn, with
// what the hub itself has of them. Reads from the cache of this cluster wait until it has synced: a record must not look orphaned because its source
// hasn't been read yet.
func (r *reconciler) everything(ctx context.Context) (map[types.NamespacedName]*snapshot, error) {
	all := map[types.NamespacedName]*snapshot{}
	of := func(key types.NamespacedName) *snapshot {
		if all[key] == nil {
			all[key] = &snapshot{}
		}
		return all[key]
	}
	exports, err := r.exports.list(ctx)
	if err != nil {
		return nil, err
	}
	for _, export := range exports {
		of(client.ObjectKeyFromObject(export))
	}
	for _, key := range r.states.known() {
		of(key)
	}
	add := func(o runtime.Object) error {
		switch record := o.(type) {
		case *clustersetv1alpha1.ExportedService:
			of(keyOf(record)).Service = record
		case *clustersetv1alpha1.ExportedEndpoints:
			s := of(keyOf(record))
			s.Endpoints = append(s.Endpoints, *record)
		}
		return nil
	}
	if err := errors.Join(r.live(ctx, &clustersetv1alpha1.ExportedServiceList{}, add), r.live(ctx, &clustersetv1alpha1.ExportedEndpointsList{}, add)); err != nil {
		return nil, err
	}
	delete(all, types.NamespacedName{}) // of a name that no exporter writes
	return all, nil
}

// pageSize is how many records are read from the hub at a time.
const pageSize = 500

// live reads this cluster's records of a kind from the hub itself.
func (r *reconciler) live(ctx context.Context, kind client.ObjectList, add func(runtime.Object) error) error {
	for next := ""; ; {
		page := kind.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // it is one
		if err := r.hub.List(ctx, page, client.InNamespace(api.MemberNamespace(r.cluster)), client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("list this cluster's records on the hub: %w", err)
		}
		if err := meta.EachListItem(page, add); err != nil {
			return err
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}
