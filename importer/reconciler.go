package importer

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/importer/effective"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/door/store"
)

// foreignRetry is when to check whether a foreign object is out of the way. Usually its own event triggers that, but the name
// of a derived Service that isn't ours doesn't say which service it blocks.
const foreignRetry = 5 * time.Minute

// reconciler makes the local objects of one service match its records on the hub. It runs only after the hub has been
// read.
type reconciler struct {
	options   Options
	hub       hub
	members   members // the hub's, or their copies here until the hub has been read
	absences  *effective.Absences
	clock     clock.PassiveClock
	local     *local
	report    *reporter
	clusters  *clusters
	made      *made
	memories  *memories
	accounts  *accounts
	noGlobals bool         // this cluster lacks the kind GlobalService
	external  *atomic.Bool // set once external addresses of another network's cluster are looked at
}

// round is one reconcile of a service: what it is computed from, what is wanted, and what was decided on the way.
type round struct {
	*reconciler
	in        desired.Input
	cur       desired.Current // what this cluster has
	out       desired.Output
	withdrawn map[string]int64  // revisions of the records that say so, by cluster
	kept      effective.Outcome // which records are used
	returns   time.Duration     // until a cluster has been back for long enough, 0: none is waited for
	late      bool              // something is still to be done without another event
}

// Reconcile implements reconcile.Reconciler for the (namespace, name) of a service.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	key := req.NamespacedName
	o := &round{reconciler: r, in: r.input(key)}
	ctx, spent := metered(ctx)
	causes, drained := r.accounts.begin(key), r.options.Facts.following.drained(key)
	o.withdrawn = r.gatherHub(ctx, key, &o.in)
	result, err := o.reconcile(ctx)
	done := err == nil && !o.late
	if done {
		r.options.Facts.following.acted(key, drained)
	}
	r.accounts.end(key, causes, spent.bytes.Load(), done)
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
	if o.cur.Derived == nil && len(o.in.Exports) == 0 && o.known() {
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
	o.effective()
	if len(o.kept.Unconfirmed) > 0 {
		o.report.outcome(o.in.Key, stateHeld)
	}
	o.out, o.returns = o.compute(ctx, &o.in)
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

// end removes a service of which nothing is wanted, if the hub knows this cluster (C40).
func (o *round) end(ctx context.Context) (reconcile.Result, error) {
	if !o.known() {
		return reconcile.Result{RequeueAfter: time.Minute}, nil
	}
	o.forget(o.in.Key)
	o.report.drops(ctx, o.in.Key, o.out.Drops)
	o.report.notExtended(ctx, o.in.Key, o.in.Extended, o.out.NotExtended)
	if result, err := o.remove(ctx); err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	switch {
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
	err := o.apply(ctx, o.in, o.out, o.cur)
	if meterOf(ctx).bytes.Load() > 0 {
		m.restored.note(ctx, now, o.out, m.failed)
	}
	m.failed = err != nil && !isStale(err)
	result, err := o.finish(ctx, o.in.Key, err)
	if err != nil {
		return result, err
	}
	if len(o.kept.Unconfirmed) > 0 {
		o.report.outcome(o.in.Key, stateHeld)
	}
	result.RequeueAfter = sooner(sooner(result.RequeueAfter, o.kept.Again), o.returns)
	return result, nil
}

// effective replaces the hub's records of a service by those to use. As long as all that is imported has a record, these are the same, and the slices
// that store what is imported needn't be read.
func (o *round) effective() {
	hub := effective.Records{Exports: o.in.Exports, Endpoints: o.in.Endpoints, Withdrawn: o.withdrawn}
	if hub.Confirm(o.in.Cluster, o.cur.Slices) {
		o.absences.Note(o.in.Key, nil, nil, o.clock.Now())
		return
	}
	last := effective.Imported(o.in.Key, o.in.Cluster, o.cur.Slices)
	o.kept = effective.Effective(hub, last, o.absent(effective.Absent(hub, last)))
	o.in.Exports, o.in.Endpoints, o.in.Unconfirmed = o.kept.Use.Exports, o.kept.Use.Endpoints, o.kept.Unconfirmed
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
	s.Absent = o.absences.Note(o.in.Key, clusters, func(cluster string) bool { return s.Clusters[cluster].Ready() }, s.Now)
	s.Full = func(cluster string) bool {
		return o.hub.Services(cluster)+o.absences.Count(cluster) > o.options.MaxServices
	}
	return s
}

// known reports whether the hub has a MemberCluster of this cluster that doesn't say that it has left.
func (r *reconciler) known() bool {
	own := r.members.Member(r.options.Cluster)
	return own != nil && !own.Left()
}

// clusterOf returns what the hub and this cluster say of a cluster.
func (r *reconciler) clusterOf(name string, own *clustersetv1alpha1.MemberCluster) (c effective.Cluster) {
	c.Member, c.Here = r.members.Member(name), copies{r.local.cache}.Member(name)
	if c.Member != nil && own != nil {
		c.Apart = name != own.Name && !communities.Share(own.Spec.Communities, c.Member.Spec.Communities)
	}
	c.Unread = !r.hub.Read(name)
	return c
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
		Unreachable: r.options.Unreachable, SkipGlobal: r.options.SkipGlobalServices || r.noGlobals,
	}
}

// compute returns the wanted objects of a service. again is when they change without an event, because a cluster has been back
// for long enough; 0 is never.
func (r *reconciler) compute(ctx context.Context, in *desired.Input) (out desired.Output, again time.Duration) {
	again = r.gatherMembers(ctx, in)
	return desired.Compute(*in), again
}

// sooner returns the sooner of two times to reconcile again. 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// finish turns the result of apply into a state, and an error if a retry makes sense.
func (o *round) finish(ctx context.Context, key types.NamespacedName, err error) (reconcile.Result, error) {
	foreign, only := foreignErrors(err)
	o.report.foreign(ctx, key, foreign)
	switch {
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
		free = free && (err == nil && desired.Owned(imp) && len(imp.Finalizers) == 0 || !slices.ContainsFunc(imp.Spec.IPs, func(ip string) bool { return slices.Contains(cur.Derived.Spec.ClusterIPs, ip) }))
	}
	for _, slice := range slices.Concat(cur.Extending, cur.Slices) {
		errs = append(errs, r.local.remove(ctx, slice))
	}
	if free {
		errs = append(errs, r.local.remove(ctx, cur.Derived))
	}
	return errors.Join(errs...)
}
