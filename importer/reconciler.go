package importer

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/retention"
)

// foreignRetry is when to check whether a foreign object is out of the way. Usually its own event triggers that, but the name
// of a derived Service that isn't ours doesn't say which service it blocks.
const foreignRetry = 5 * time.Minute

// reconciler makes the local objects of one service match its records on the hub. It runs only after the hub's caches have
// synced.
type reconciler struct {
	options   Options
	hub       client.Reader // the hub's cache
	records   onHub
	keeper    *retention.Keeper
	local     *local
	report    *reporter
	families  *familyMemory
	returning *returning
	quota     *importQuota
	made      *made
	memories  *memories
	turns     *turns
	globals   *globalKind // nil: installed
	// budget is for all writes but those of GlobalServices that only have other endpoints: these may be large, and have globalBudget.
	budget, globalBudget *budget
}

// skipGlobal reports whether no GlobalServices are written.
func (r *reconciler) skipGlobal() bool {
	return r.options.SkipGlobalServices || r.globals != nil && r.globals.missing.Load()
}

// Reconcile implements reconcile.Reconciler for the (namespace, name) of a service.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (result reconcile.Result, err error) {
	began, late := r.options.Facts.following.began(), false
	defer func() {
		if err == nil && !late {
			r.options.Facts.following.done(req.NamespacedName, began)
		}
	}()
	for _, e := range r.local.echoes.begin(req.NamespacedName) {
		if e.slice != "" && e.shown != "" {
			r.memories.get(req.NamespacedName).ShownSlice(e.slice, e.shown)
		}
	}
	ctx, spent := metered(ctx)
	in := r.input(req.NamespacedName)
	r.gatherHub(ctx, in.Key, &in)
	end := r.turns.begin(in.Key, onlyExporter(in.Services))
	if end == nil {
		late = true
		return reconcile.Result{}, nil
	}
	defer end()
	cur, own, err := r.gatherLocal(ctx, in.Key)
	if err != nil {
		return reconcile.Result{}, err
	}

	if in.Extended, err = r.gatherExtended(ctx, in.Key); err != nil {
		return reconcile.Result{}, err
	}
	if len(in.Services) > 0 && !r.options.imports(in.Key.Namespace) {
		// The operator's own setting needs no answer from the hub.
		r.forget(in.Key)
		r.report.notExtended(ctx, in.Key, in.Extended, in.Extended.Refused())
		r.report.outcome(in.Key, stateExcluded)
		return reconcile.Result{}, r.removeAll(ctx, cur)
	}
	if cur.Derived != nil && desired.Owned(cur.Derived) {
		in.Derived = cur.Derived
	}
	if in.Own, err = r.gatherOwn(ctx, in.Key, own); err != nil {
		return reconcile.Result{}, err
	}
	last := sync.OnceValue(func() retention.Records { return retention.Imported(in.Key, in.Cluster, cur.Slices) })
	admitted := r.admit(ctx, &in, last)
	finished := false
	defer func() {
		r.settle(admitted, spent.others.Load(), finished)
		result.RequeueAfter = sooner(result.RequeueAfter, admitted.wait)
	}()
	effective, err := r.effective(ctx, &in, last, admitted.missing)
	if err != nil {
		return reconcile.Result{}, err
	}
	if effective.Why != nil {
		logf.FromContext(ctx).V(1).Info("Kept what the hub doesn't have", "reason", effective.Why.Error())
		r.report.outcome(in.Key, stateHeld)
	}
	out, returns, err := r.compute(ctx, &in, cur)
	if err != nil {
		return reconcile.Result{}, err
	}
	went := effective.Went(r.memories.get(in.Key).went)
	if len(went) > 0 && !retention.Removes(in, cur, out, nil) {
		went = nil
	}
	if retention.Removes(in, cur, out, went) {
		if err := r.keeper.Guard.MayDelete(ctx); err != nil {
			late = true
			logf.FromContext(ctx).V(1).Info("Changed nothing", "reason", err.Error())
			r.report.outcome(in.Key, stateHeld)
			return reconcile.Result{RequeueAfter: sooner(effective.Again, retention.RetryAfter(err))}, nil
		}
	}
	if out.ServiceImport == nil {
		r.forget(in.Key)
		if len(went) > 0 {
			r.memories.get(in.Key).went = went
		}
		r.report.drops(ctx, in.Key, nil, out.Drops)
		r.report.notExtended(ctx, in.Key, in.Extended, out.NotExtended)
		if err := r.removeAll(ctx, cur); err != nil {
			return reconcile.Result{}, err
		}
		finished = true
		switch {
		case admitted.wait > 0:
			r.report.outcome(in.Key, stateLate)
		case len(in.Services) == 0:
			r.report.outcome(in.Key, "")
		case len(in.Capped) > 0:
			r.report.outcome(in.Key, stateCapped)
		default:
			r.report.outcome(in.Key, stateFailed) // nothing in the records was usable
		}
		return reconcile.Result{}, nil
	}
	r.memories.get(in.Key).went = went
	switch ok, err := r.ensureNamespace(ctx, in.Key.Namespace, out.Resolved.Clusters); {
	case errors.Is(err, errTooManyNamespaces):
		r.forget(in.Key)
		r.report.outcome(in.Key, stateCapped)
		return reconcile.Result{RequeueAfter: namespaceRetry}, nil
	case err != nil:
		r.report.outcome(in.Key, stateFailed)
		return reconcile.Result{}, err
	case !ok:
		r.forget(in.Key)
		r.report.outcome(in.Key, stateNoNamespace)
		return reconcile.Result{}, nil // the namespace's event brings us back
	}
	m, now := r.memories.get(in.Key), r.keeper.Clock.Now()
	restores := m.restores()
	if wait := m.restored.wait(now); restores && wait > 0 {
		late = true
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	again, err := r.apply(ctx, in, out, cur)
	if restores && spent.any() {
		m.restored.note(ctx, now)
	}
	_, foreign := foreignErrors(err)
	finished, late = err == nil, !foreign && isStale(err)
	result, err = r.finish(ctx, in.Key, err)
	if err == nil && admitted.wait > 0 {
		r.report.outcome(in.Key, stateLate)
	}
	if err == nil && effective.Why != nil {
		r.report.outcome(in.Key, stateHeld)
		result.RequeueAfter = sooner(result.RequeueAfter, effective.Again)
	}
	if err == nil {
		result.RequeueAfter = sooner(sooner(sooner(result.RequeueAfter, returns), again), r.formerFor(in.Key))
	}
	return result, err
}

// onlyExporter returns the cluster that records come from, "" if there are several.
func onlyExporter(services []*clustersetv1alpha1.ExportedService) (only string) {
	for _, s := range services {
		cluster, ok := s.SourceCluster()
		if !ok || only != "" && cluster != only {
			return ""
		}
		only = cluster
	}
	return only
}

// effective replaces the hub's records of a service by those to use. As long as all that is imported has a record, and none goes, these are
// the same.
func (r *reconciler) effective(ctx context.Context, in *desired.Input, last func() retention.Records, missing bool) (retention.Outcome, error) {
	hub, m := retention.Records{Services: in.Services, Endpoints: in.Endpoints}, r.memories.get(in.Key)
	if m.complete && !missing {
		return retention.Outcome{Use: hub}, nil
	}
	o, err := r.keeper.Effective(ctx, in.Key, hub, last())
	m.complete = err == nil && o.Why == nil && len(o.Gone) == 0 && !missing // the cache may lag behind the slices that store what is missing
	in.Services, in.Endpoints = o.Use.Services, o.Use.Endpoints
	return o, err
}

// forget forgets the last computation of a service, of which nothing is to be written at this moment.
func (r *reconciler) forget(service types.NamespacedName) {
	r.memories.forget(service)
	r.globalBudget.done(service, nil)
}

// input returns the part of the input that is the same for all services.
func (r *reconciler) input(key types.NamespacedName) desired.Input {
	return desired.Input{
		Key: key, DataPath: r.options.DataPath, Cluster: r.options.Cluster, Nodes: r.options.Nodes.Places(), Policy: r.options.Policy,
		Unreachable: r.options.Unreachable, SkipGlobal: r.skipGlobal(), Former: r.former(key),
	}
}

// compute returns the wanted objects of a service. again is when they change without an event, because a cluster has been back
// for long enough; 0 is never.
func (r *reconciler) compute(ctx context.Context, in *desired.Input, cur desired.Current) (desired.Output, time.Duration, error) {
	again, err := r.gatherMembers(ctx, in)
	if err != nil {
		return desired.Output{}, 0, err
	}
	return r.memories.get(in.Key).Compute(*in, cur), again, nil
}

// sooner returns the sooner of two times to reconcile again. 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// finish turns the result of apply into a state, and an error if a retry makes sense.
func (r *reconciler) finish(ctx context.Context, key types.NamespacedName, err error) (reconcile.Result, error) {
	foreign, only := foreignErrors(err)
	r.report.foreign(ctx, key, foreign)
	switch {
	case err == nil:
		r.report.outcome(key, stateImported)
	case only:
		r.report.outcome(key, stateForeign)
		return reconcile.Result{RequeueAfter: foreignRetry}, nil
	case isStale(err):
		// Someone else wrote between our read and our write. That is no failure, and the event is on its way.
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	default:
		r.report.outcome(key, stateFailed)
		r.report.refused(key, refusal(err))
		return reconcile.Result{}, err
	}
	r.report.refused(key, "")
	return reconcile.Result{}, nil
}

// isStale reports whether everything that failed did so because the cache was behind.
func isStale(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !isStale(e) {
				return false
			}
		}
		return true
	}
	var foreign *foreignError
	return apierrors.IsConflict(err) || errors.As(err, &foreign)
}

// removeAll deletes all of our objects of a service.
func (r *reconciler) removeAll(ctx context.Context, cur desired.Current) error {
	var errs []error
	// The ServiceImport last: if we are interrupted, what it owns can still be found through it.
	if cur.Global != nil {
		errs = append(errs, r.local.remove(ctx, cur.Global))
	}
	for _, slice := range slices.Concat(cur.Extending, cur.Slices) {
		errs = append(errs, r.local.remove(ctx, slice))
	}
	if cur.Derived != nil {
		errs = append(errs, r.local.remove(ctx, cur.Derived))
	}
	if cur.ServiceImport != nil {
		errs = append(errs, r.local.remove(ctx, cur.ServiceImport))
	}
	return errors.Join(errs...)
}
