package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/hubcache"
)

// foreignRetry is when to check whether a foreign object is out of the way. Usually its own event triggers that, but the name
// of a derived Service that isn't ours doesn't say which service it blocks. And when to check whether the definition of ServiceImport was upgraded.
const foreignRetry = 5 * time.Minute

// reconciler makes the local objects of one service match its records on the hub. It runs only after the hub's caches have
// synced.
type reconciler struct {
	options   Options
	hub       client.Reader // the hub's cache
	records   onHub
	absences  *effective.Absences
	clock     clock.PassiveClock
	local     *local
	report    *reporter
	families  *familyMemory
	returning *returning
	quota     *importQuota
	made      *made
	memories  *memories
	turns     *turns
	globals   *globalKind  // nil: installed
	external  *atomic.Bool // set once external addresses of another network's cluster are looked at
	budget    *budget
}

// skipGlobal reports whether no GlobalServices are written.
func (r *reconciler) skipGlobal() bool {
	return r.options.SkipGlobalServices || r.globals != nil && r.globals.missing.Load()
}

// round is one reconcile of a service: what it is computed from, what is wanted, and what was decided on the way.
type round struct {
	*reconciler
	in        desired.Input
	cur       desired.Current // what this cluster has
	out       desired.Output
	spent     *meter
	withdrawn map[string]int64  // revisions of the records that say so, by cluster
	kept      effective.Outcome // which records are used
	returns   time.Duration     // until a cluster has been back for long enough, 0: none is waited for
	held      time.Duration     // until changes of clusters beyond their write budgets may be applied, 0: none waits
	finished  bool              // all that is wanted was written
	late      bool              // something is still to be done without another event
}

// Reconcile implements reconcile.Reconciler for the (namespace, name) of a service.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key, began := req.NamespacedName, r.options.Facts.following.began()
	r.local.echoes.begin(key)
	o := &round{reconciler: r, in: r.input(key)}
	ctx, o.spent = metered(ctx)
	o.withdrawn = r.gatherHub(ctx, key, &o.in)
	end := r.turns.begin(key, onlyExporter(o.in.Exports))
	if end == nil {
		return reconcile.Result{}, nil // one that ends enqueues it again
	}
	defer end()
	result, err := o.reconcile(ctx)
	if err == nil && !o.late {
		r.options.Facts.following.done(key, began)
	}
	return result, err
}

// reconcile reads what the cluster has, and makes it what is wanted.
func (o *round) reconcile(ctx context.Context) (result reconcile.Result, err error) {
	var own []discoveryv1.EndpointSlice
	if o.cur, own, err = o.gatherLocal(ctx, o.in.Key); err != nil {
		return result, err
	}
	if o.in.Extended, err = o.gatherExtended(ctx, o.in.Key); err != nil {
		return result, err
	}
	if o.cur.Derived == nil && len(o.in.Exports) == 0 {
		if o.cur.Derived, err = o.stray(ctx, o.in.Key); err != nil {
			return result, err
		}
	}
	if !o.options.imports(o.in.Key.Namespace) {
		return o.exclude(ctx)
	}
	if o.cur.Derived != nil && desired.Owned(o.cur.Derived) {
		o.in.Derived = o.cur.Derived
	}
	if o.in.Own, err = o.gatherOwn(ctx, o.in.Key, own); err != nil {
		return result, err
	}
	last := sync.OnceValue(func() effective.Records { return effective.Imported(o.in.Key, o.in.Cluster, o.cur.Slices) })
	admitted := o.admit(ctx, &o.in, last)
	o.held = admitted.wait
	defer func() {
		o.settle(admitted, o.spent.bytes.Load(), o.finished)
		result.RequeueAfter = sooner(result.RequeueAfter, o.held)
	}()
	if err := o.decide(ctx, last, admitted.missing); err != nil {
		return result, err
	}
	if o.out.ServiceImport == nil {
		return o.end(ctx)
	}
	return o.write(ctx)
}

// exclude removes what is imported of a namespace that the operator excludes. That needs no answer from the hub, whose records of it may not
// even be watched.
func (o *round) exclude(ctx context.Context) (reconcile.Result, error) {
	o.forget(o.in.Key)
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

// decide decides which records to use, and what is wanted of them; missing means that there were others before.
func (o *round) decide(ctx context.Context, last func() effective.Records, missing bool) (err error) {
	if err = o.effective(ctx, last, missing); err != nil {
		return err
	}
	if len(o.kept.Unconfirmed) > 0 {
		o.report.outcome(o.in.Key, stateHeld)
	}
	o.out, o.returns, err = o.compute(ctx, &o.in)
	return err
}

// end removes a service of which nothing is wanted, if the hub knows this cluster (C40).
func (o *round) end(ctx context.Context) (reconcile.Result, error) {
	if known, err := o.known(ctx); err != nil || !known {
		return reconcile.Result{RequeueAfter: time.Minute}, err
	}
	o.forget(o.in.Key)
	o.report.drops(ctx, o.in.Key, o.out.Drops)
	o.report.notExtended(ctx, o.in.Key, o.in.Extended, o.out.NotExtended)
	if result, err := o.remove(ctx); err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	o.finished = true
	switch {
	case o.held > 0:
		o.report.outcome(o.in.Key, stateLate)
	case len(o.in.Exports) == 0:
		o.report.outcome(o.in.Key, "")
	case len(o.in.Capped) > 0:
		o.report.outcome(o.in.Key, stateCapped)
	default:
		o.report.outcome(o.in.Key, stateFailed) // nothing in the records was usable
	}
	return reconcile.Result{}, nil
}

// write writes what is wanted of a service, in its namespace.
func (o *round) write(ctx context.Context) (reconcile.Result, error) {
	m, now := o.memories.get(o.in.Key), o.clock.Now()
	switch ok, err := o.ensureNamespace(ctx, o.in.Key.Namespace, o.out.Resolved.Clusters); {
	case errors.Is(err, errTooManyNamespaces):
		o.forget(o.in.Key)
		o.report.outcome(o.in.Key, stateCapped)
		return reconcile.Result{RequeueAfter: namespaceRetry}, nil
	case err != nil:
		o.report.outcome(o.in.Key, stateFailed)
		return reconcile.Result{}, err
	case !ok:
		o.forget(o.in.Key)
		o.report.outcome(o.in.Key, stateNoNamespace)
		return o.remove(ctx) // what goes with the namespace goes in our order; its event brings us back
	}
	if wait := m.restored.wait(now, o.out); wait > 0 {
		o.late = true
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	again, err := o.apply(ctx, o.in, o.out, o.cur)
	if o.spent.bytes.Load() > 0 {
		m.restored.note(ctx, now, o.out, m.failed)
	}
	m.failed = err != nil && !isStale(err)
	_, foreign := foreignErrors(err)
	o.finished, o.late = err == nil, !foreign && isStale(err)
	result, err := o.finish(ctx, o.in.Key, err)
	if err != nil {
		return result, err
	}
	if o.held > 0 {
		o.report.outcome(o.in.Key, stateLate)
	}
	if len(o.kept.Unconfirmed) > 0 {
		o.report.outcome(o.in.Key, stateHeld)
	}
	result.RequeueAfter = sooner(sooner(sooner(result.RequeueAfter, o.kept.Again), o.returns), again)
	return result, nil
}

// onlyExporter returns the cluster that records come from, "" if there are several.
func onlyExporter(exports []*door.Export) (only string) {
	for _, e := range exports {
		if e.Cluster == "" || only != "" && e.Cluster != only {
			return ""
		}
		only = e.Cluster
	}
	return only
}

// effective replaces the hub's records of a service by those to use. As long as all that is imported has a record, these are the same.
func (o *round) effective(ctx context.Context, last func() effective.Records, missing bool) error {
	hub, m := effective.Records{Exports: o.in.Exports, Endpoints: o.in.Endpoints, Withdrawn: o.withdrawn}, o.memories.get(o.in.Key)
	if m.complete && !missing {
		return nil
	}
	was := last()
	s, err := o.absent(ctx, effective.Absent(hub, was))
	if err != nil {
		return err
	}
	o.kept = effective.Effective(hub, was, s)
	m.complete = o.kept.Whole && !missing // the cache may lag behind the slices that store what is missing
	o.in.Exports, o.in.Endpoints, o.in.Unconfirmed = o.kept.Use.Exports, o.kept.Use.Endpoints, o.kept.Unconfirmed
	return nil
}

// absent returns what decides about clusters whose parts of the service have no record.
func (o *round) absent(ctx context.Context, clusters []string) (s effective.State, err error) {
	s.Now, s.Clusters = o.clock.Now(), make(map[string]effective.Cluster, len(clusters))
	own, err := memberIn(ctx, o.hub, o.in.Cluster)
	if err != nil {
		return s, err
	}
	if s.Known, err = o.known(ctx); err != nil {
		return s, err
	}
	if o.options.HubState != nil {
		if hub := o.options.HubState(); hub.Phase == hubcache.Live {
			s.Read = hub.Since
		}
	} else {
		s.Read = time.Unix(0, 0)
	}
	for _, name := range clusters {
		if s.Clusters[name], err = o.clusterOf(ctx, name, own); err != nil {
			return s, err
		}
	}
	s.Absent = o.absences.Note(o.in.Key, clusters, func(cluster string) bool { return s.Clusters[cluster].Ready() }, s.Now)
	s.Full = func(cluster string) bool {
		return o.quota.count(cluster)+o.absences.Count(cluster) > o.options.MaxServices
	}
	return s, nil
}

// known reports whether the hub has a MemberCluster of this cluster that doesn't say that it has left.
func (r *reconciler) known(ctx context.Context) (bool, error) {
	own, err := memberIn(ctx, r.hub, r.options.Cluster)
	return own != nil && !own.Left(), err
}

// clusterOf returns what the hub and this cluster say of a cluster.
func (r *reconciler) clusterOf(ctx context.Context, name string, own *clustersetv1alpha1.MemberCluster) (c effective.Cluster, err error) {
	if c.Member, err = memberIn(ctx, r.hub, name); err != nil {
		return c, err
	}
	if c.Here, err = memberIn(ctx, r.local.cache, name); err != nil {
		return c, err
	}
	if c.Member != nil && own != nil {
		c.Apart = name != own.Name && !communities.Share(own.Spec.Communities, c.Member.Spec.Communities)
	}
	c.Unread = r.options.Unread(name)
	return c, nil
}

// memberIn returns a MemberCluster, nil if there is none. It belongs to the cache.
func memberIn(ctx context.Context, from client.Reader, name string) (*clustersetv1alpha1.MemberCluster, error) {
	m := &clustersetv1alpha1.MemberCluster{}
	switch err := from.Get(ctx, client.ObjectKey{Name: name}, m, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get MemberCluster %s: %w", name, err)
	}
	return m, nil
}

// forget forgets the last computation of a service, of which nothing is to be written at this moment.
func (r *reconciler) forget(service types.NamespacedName) {
	r.memories.forget(service)
	r.report.unwritten(service)
}

// input returns the part of the input that is the same for all services.
func (r *reconciler) input(key types.NamespacedName) desired.Input {
	return desired.Input{
		Key: key, DataPath: r.options.DataPath, Cluster: r.options.Cluster, Nodes: r.options.Nodes.Places(), Policy: r.options.Policy,
		Unreachable: r.options.Unreachable, SkipGlobal: r.skipGlobal(),
	}
}

// compute returns the wanted objects of a service. again is when they change without an event, because a cluster has been back
// for long enough; 0 is never.
func (r *reconciler) compute(ctx context.Context, in *desired.Input) (desired.Output, time.Duration, error) {
	again, err := r.gatherMembers(ctx, in)
	if err != nil {
		return desired.Output{}, 0, err
	}
	return desired.Compute(*in), again, nil
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

// removeAll deletes all of our objects of a service: first what answers names, then what these lead to. The addresses of the derived Service go last,
// once no ServiceImport has them: anybody else's Service may get them. If we are interrupted, what is left says which service it was for.
func (r *reconciler) removeAll(ctx context.Context, cur desired.Current) error {
	var errs []error
	if cur.Global != nil {
		errs = append(errs, r.local.remove(ctx, cur.Global)) // while the ServiceImport answers, it isn't asked for
	}
	free := cur.Derived != nil
	if imp := cur.ServiceImport; imp != nil {
		err := r.local.remove(ctx, imp)
		errs = append(errs, err)
		free = free && (err == nil && desired.Owned(imp) || !slices.ContainsFunc(imp.Spec.IPs, func(ip string) bool { return slices.Contains(cur.Derived.Spec.ClusterIPs, ip) }))
	}
	for _, slice := range slices.Concat(cur.Extending, cur.Slices) {
		errs = append(errs, r.local.remove(ctx, slice))
	}
	if free {
		errs = append(errs, r.local.remove(ctx, cur.Derived))
	}
	return errors.Join(errs...)
}
