package importer

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// foreignRetry is when to look again whether a foreign object is out of the way. Usually its own event says so, but the name
// of a derived Service that isn't ours leads to no service.
const foreignRetry = 5 * time.Minute

// reconciler makes the local objects of one service what its records on the hub come to. It runs only once the hub's caches
// have synced.
type reconciler struct {
	options  Options
	hub      client.Reader // the hub's cache
	guard    *hubGuard
	hold     *hold
	local    *local
	report   *reporter
	families *familyMemory
}

// Reconcile implements reconcile.Reconciler for the (namespace, name) of a service.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	in := input{key: req.NamespacedName, dataPath: r.options.DataPath}
	if err := r.gatherHub(ctx, in.key, &in); err != nil {
		return reconcile.Result{}, err
	}
	cur, err := r.gatherLocal(ctx, in.key)
	if err != nil {
		return reconcile.Result{}, err
	}

	if len(in.services) > 0 && !r.options.imports(in.key.Namespace) {
		// The operator's own wish needs no word from the hub.
		r.report.outcome(in.key, stateExcluded)
		return reconcile.Result{}, r.removeAll(ctx, cur)
	}
	if cur.derived != nil && ours(cur.derived) {
		in.derived = cur.derived
	}
	kept, again, why := r.hold.back(ctx, in.key, missing(in, cur))
	if len(kept) > 0 {
		logf.FromContext(ctx).V(1).Info("Kept what the hub doesn't have", "reason", why.Error())
		r.report.outcome(in.key, stateHeld)
		if len(in.services) == 0 || errors.Is(why, errLost) {
			return reconcile.Result{RequeueAfter: again}, nil // nobody changes anything
		}
		retain(&in, cur, kept)
	}
	if err := r.gatherMembers(ctx, &in); err != nil {
		return reconcile.Result{}, err
	}
	out := compute(in)
	if takesAway(cur, out) {
		if err := r.guard.mayDelete(ctx); err != nil {
			logf.FromContext(ctx).V(1).Info("Left the service as it is: the hub's records may be incomplete", "reason", err.Error())
			r.report.outcome(in.key, stateHeld)
			return reconcile.Result{RequeueAfter: retryAfter(err)}, nil
		}
	}
	if out.serviceImport == nil {
		r.report.drops(ctx, in.key, nil, out.drops)
		if err := r.removeAll(ctx, cur); err != nil {
			return reconcile.Result{}, err
		}
		if len(in.services) == 0 {
			r.report.outcome(in.key, "")
		} else {
			r.report.outcome(in.key, stateFailed) // nothing in the records was of use
		}
		return reconcile.Result{}, nil
	}
	if ok, err := r.ensureNamespace(ctx, in.key.Namespace); err != nil {
		r.report.outcome(in.key, stateFailed)
		return reconcile.Result{}, err
	} else if !ok {
		r.report.outcome(in.key, stateNoNamespace)
		return reconcile.Result{}, nil // the namespace's event brings us back
	}
	result, err := r.finish(ctx, in.key, r.apply(ctx, in, out, cur))
	if err == nil && len(kept) > 0 {
		r.report.outcome(in.key, stateHeld)
		if result.RequeueAfter == 0 || again < result.RequeueAfter {
			result.RequeueAfter = again
		}
	}
	return result, err
}

// finish turns what applying came to into a state and, where trying again makes sense, an error.
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
		// Someone wrote between our cache's view and our write. That is no failure, and the news is on its way.
		return reconcile.Result{RequeueAfter: staleRetry}, nil
	default:
		r.report.outcome(key, stateFailed)
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, nil
}

// isStale says whether everything that failed did so because our cache was behind.
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

// takesAway says whether out has less than what is there: no service at all, a cluster fewer, or fewer of its records.
func takesAway(cur current, out output) bool {
	if out.serviceImport == nil {
		return cur.serviceImport != nil && ours(cur.serviceImport) || cur.derived != nil && ours(cur.derived) ||
			cur.global != nil && ours(cur.global) || len(cur.slices) > 0
	}
	clusters := map[string]bool{}
	for _, c := range out.resolved.Clusters {
		clusters[c] = true
	}
	if imp := cur.serviceImport; imp != nil && ours(imp) {
		for _, c := range imp.Status.Clusters {
			if !clusters[c.Cluster] {
				return true
			}
		}
	}
	if g := cur.global; g != nil && ours(g) {
		for i := range g.Spec.Endpoints {
			if !clusters[g.Spec.Endpoints[i].Cluster] {
				return true
			}
		}
	}
	return len(staleSlices(cur, out)) > 0
}

// removeAll deletes what is ours of a service.
func (r *reconciler) removeAll(ctx context.Context, cur current) error {
	var errs []error
	// The ServiceImport last: if we are interrupted, what it owns is still found through it.
	if cur.global != nil {
		errs = append(errs, r.local.remove(ctx, cur.global))
	}
	for _, slice := range cur.slices {
		errs = append(errs, r.local.remove(ctx, slice))
	}
	if cur.derived != nil {
		errs = append(errs, r.local.remove(ctx, cur.derived))
	}
	if cur.serviceImport != nil {
		errs = append(errs, r.local.remove(ctx, cur.serviceImport))
	}
	return errors.Join(errs...)
}

// ensureNamespace says whether objects can be made in the namespace.
func (r *reconciler) ensureNamespace(ctx context.Context, name string) (bool, error) {
	ns := &corev1.Namespace{}
	found, err := get(ctx, r.local, "", name, ns)
	if err != nil {
		return false, err
	}
	if found && ns.DeletionTimestamp.IsZero() {
		r.report.namespaceFound(name)
		return true, nil
	}
	if !found && r.options.CreateNamespaces {
		fresh := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ourLabels()}}
		_, err := ensure(ctx, r.local, nil, fresh, func(*corev1.Namespace) {})
		var foreign *foreignError
		if errors.As(err, &foreign) {
			return false, nil // somebody was faster; its event comes
		}
		return err == nil, err
	}
	r.report.namespaceMissing(ctx, name)
	return false, nil
}
