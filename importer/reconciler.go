// Package importer turns the members' exports on the hub into the objects that one member's DNS and kube-proxy read. It runs in
// every member, exporting or not, and sits between the hub and the plugin:
//
//	hub: ExportedService, ExportedEndpoints, MemberCluster
//	  ─ effective.Effective (pure) ─► the records to use: these, and those of parts that stay without one
//	  ─ merge.Resolve (pure)       ─► what the service is
//	  ─ desired.Compute (pure)     ─► ServiceImport, EndpointSlices, derived Service, GlobalService
//	  ─ reconciler                 ─► the local API server
//
// It is level-triggered: an event enqueues a (namespace, name), and the worker makes that service's objects match the records
// in the hub's store at that moment. It writes only what differs.
//
// Absence says nothing (effective.Effective): an un-export is a record too, our EndpointSlices store the records that they were made of, and before
// the hub has been read all stays as it is, but for this cluster's own addresses. Only objects with api.LabelManagedBy and our value are changed.
package importer

import (
	"context"
	"errors"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
	"github.com/clusterset/clusterset/internal/door/store"
)

// Reconcile implements reconcile.Reconciler for the (namespace, name) of a service.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	o := r.round(key)
	spent := r.memories.begin(key)
	ctx = metered(ctx, spent)
	causes := r.accounts.begin(key)
	o.gatherHub()
	result, err := o.reconcile(ctx)
	if r.memories.end(key) {
		r.accounts.add(key)
	}
	r.accounts.end(key, causes, spent.bytes.Load(), err == nil && !o.late)
	return result, err
}

// reconcile reads what the cluster has, and makes it what is wanted.
func (o *round) reconcile(ctx context.Context) (result reconcile.Result, err error) {
	var own []discoveryv1.EndpointSlice
	if o.cur, own, err = o.gatherLocal(ctx, o.in.Key); err != nil {
		return result, err
	}
	if err = o.gatherService(ctx); err != nil {
		return o.finish(ctx, o.in.Key, err)
	}
	if err = o.gatherNamespace(ctx); err != nil {
		return result, err
	}
	if !o.options.imports(o.in.Key.Namespace) {
		return o.exclude(ctx)
	}
	if o.cur.Derived != nil && desired.Owned(o.cur.Derived) {
		o.in.Derived = o.cur.Derived
	}
	o.in.Own = o.gatherOwn(own)
	if err = o.effective(ctx); err != nil {
		return result, err
	}
	o.gatherMembers(ctx)
	o.out = desired.Compute(o.in)
	switch {
	case o.alone:
		return o.writeAlone(ctx)
	case o.out.ServiceImport == nil:
		return o.end(ctx)
	}
	return o.write(ctx)
}

// writeAlone makes a service follow this cluster's own Services and what it can reach before the hub has been read: a rollout here must not wait for
// a hub that is down, nor a failover. What the service is stays as the hub last defined it, and all of it if its slices alone don't determine it.
func (o *round) writeAlone(ctx context.Context) (reconcile.Result, error) {
	imp := o.cur.ServiceImport
	unknown := func(c mcsv1beta1.ClusterStatus) bool { return !slices.Contains(o.out.Resolved.Clusters, c.Cluster) }
	if imp == nil || !desired.Owned(imp) || o.out.ServiceImport == nil || slices.ContainsFunc(imp.Status.Clusters, unknown) {
		return reconcile.Result{}, nil
	}
	err := errors.Join(o.applySlices(ctx, o.out, o.cur, o.ownerOf(imp)), o.applyExtending(ctx, o.in, o.out, o.cur), o.applyGlobal(ctx, o.out, o.cur))
	if isStale(err) {
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	}
	return reconcile.Result{RequeueAfter: o.returns}, err
}

// exclude removes what is imported of a namespace that the operator excludes. That needs no answer from the hub.
func (o *round) exclude(ctx context.Context) (reconcile.Result, error) {
	o.memories.forget(o.in.Key)
	o.report.notExtended(ctx, o.in.Key, o.in.Extended, o.in.Extended.Refused())
	outcome := state("")
	if len(o.in.Exports) > 0 {
		outcome = stateExcluded
	}
	o.report.outcome(o.in.Key, outcome)
	return o.remove(ctx)
}

// remove removes the objects of a service.
func (o *round) remove(ctx context.Context) (reconcile.Result, error) {
	if err := o.removeAll(ctx, o.cur); err != nil {
		return o.finish(ctx, o.in.Key, err)
	}
	return reconcile.Result{}, nil
}

// end removes a service of which nothing is wanted, if the hub knows this cluster (C40).
func (o *round) end(ctx context.Context) (reconcile.Result, error) {
	if !o.known() {
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	}
	o.memories.forget(o.in.Key)
	o.report.notExtended(ctx, o.in.Key, o.in.Extended, o.out.NotExtended)
	if result, err := o.remove(ctx); err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	switch {
	case len(o.in.Exports) == 0:
		o.report.outcome(o.in.Key, "")
	case len(o.in.Capped) > 0:
		o.report.outcome(o.in.Key, stateCapped)
	case o.report.outcome(o.in.Key, stateFailed): // there is no ServiceImport to say so
		o.report.unusable(ctx, o.in.Key, o.out.Drops)
	}
	return reconcile.Result{}, nil
}

// write writes what is wanted of a service, in its namespace.
func (o *round) write(ctx context.Context) (reconcile.Result, error) {
	switch missing, err := o.ensureNamespace(ctx, o.in.Key.Namespace, o.out.Resolved.Clusters); {
	case err != nil:
		o.report.outcome(o.in.Key, stateFailed)
		return reconcile.Result{}, err
	case missing != "":
		o.memories.forget(o.in.Key)
		if o.report.outcome(o.in.Key, missing) && missing == stateCapped {
			o.report.namespacesFull(ctx, o.out.Resolved.Clusters[0], o.in.Key.Namespace, o.options.MaxNamespaces)
		}
		result, err := o.remove(ctx) // what goes with the namespace goes in our order; its event brings us back
		if missing == stateCapped {
			result.RequeueAfter = sooner(result.RequeueAfter, namespaceRetry)
		}
		return result, err
	}
	writes, now := o.memories.get(o.in.Key).writes, o.clock.Now()
	if writes.TokensAt(now) < 1 {
		o.late = true
		return reconcile.Result{RequeueAfter: writesEvery}, nil
	}
	err := o.apply(ctx, o.in, o.out, o.cur)
	if meterOf(ctx).bytes.Load() > 0 {
		writes.AllowN(now, 1)
	}
	result, err := o.finish(ctx, o.in.Key, err)
	if err != nil {
		return result, err
	}
	result.RequeueAfter = sooner(sooner(result.RequeueAfter, o.kept.Again), o.returns)
	return result, nil
}

// effective replaces the hub's records of a service by those to use. As long as all that is imported has a record, these are the same, and the slices
// that store what is imported needn't be read from the API server.
func (o *round) effective(ctx context.Context) error {
	hub := effective.Records{Exports: o.in.Exports, Endpoints: o.in.Endpoints, Withdrawn: o.withdrawn}
	if hub.Confirm(o.in.Cluster, o.cur.Slices) {
		o.absences.Note(o.in.Key, nil, nil, o.clock.Now())
		return nil
	}
	here, err := o.local.whole(ctx, o.cur.Slices)
	if err != nil {
		return err
	}
	last := effective.Imported(o.in.Key, o.in.Cluster, here)
	o.kept = effective.Effective(hub, last, o.absent(effective.Absent(hub, last)))
	o.in.Exports, o.in.Endpoints, o.in.Unconfirmed = o.kept.Use.Exports, o.kept.Use.Endpoints, o.kept.Unconfirmed
	return nil
}

// absent returns what decides about clusters whose parts of the service have no record.
func (o *round) absent(clusters []string) (s effective.State) {
	s.Now, s.Clusters = o.clock.Now(), make(map[string]effective.Cluster, len(clusters))
	own := o.members.Member(o.in.Cluster)
	s.Known = o.known()
	if hub := o.hub.State(); hub.Phase == store.Live {
		s.Read = hub.Since
	}
	for _, name := range clusters {
		s.Clusters[name] = o.clusterOf(name, own)
	}
	s.Absent = o.absences.Note(o.in.Key, clusters, func(cluster string) bool { return !o.alone && s.Clusters[cluster].Ready() }, s.Now)
	s.Full = func(cluster string) bool {
		return o.hub.Services(cluster)+o.absences.Count(cluster) > o.options.MaxServices
	}
	return s
}

// finish turns the result of apply into a state, and an error if a retry makes sense.
func (o *round) finish(ctx context.Context, key types.NamespacedName, err error) (reconcile.Result, error) {
	foreign, only := foreignErrors(err)
	o.report.foreign(ctx, key, foreign)
	switch {
	case err == nil && len(o.kept.Unconfirmed) > 0:
		o.report.outcome(key, stateHeld)
	case err == nil:
		o.report.outcome(key, stateImported)
	case only:
		o.report.outcome(key, stateForeign)
		return reconcile.Result{RequeueAfter: foreignRetry}, nil
	case isStale(err):
		// Someone else wrote between our read and our write. That is no failure, and the event is on its way.
		o.late = true
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	default:
		o.report.outcome(key, stateFailed)
		o.report.refused(ctx, key, refusal(err))
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}
