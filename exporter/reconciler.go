package exporter

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/record"
	"github.com/clusterset/clusterset/internal/text"
)

// retryRefused is when to retry what the hub or the member rejected: we aren't notified when a quota is raised. What the hub rejects is retried at
// first after retrySoon, and then at doubled pauses: its policy learns of other networks at the same time as we do.
const retryRefused, retrySoon = time.Minute, 2 * time.Second

// retryConflict is how long to wait for our cache to catch up with a write, most likely our own.
const retryConflict = 200 * time.Millisecond

// maxBackoff is the longest wait before a failed service is retried. controller-runtime's default of a quarter of an hour would
// be added to a hub's outage of that length.
const maxBackoff = 30 * time.Second

// Reconcile implements reconcile.Reconciler. The request names a service, which may not exist.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	defer r.states.tidy(req.NamespacedName)
	return r.reconcile(ctx, req.NamespacedName, r.states.get(req.NamespacedName))
}

func (r *reconciler) reconcile(ctx context.Context, key types.NamespacedName, known *serviceState) (reconcile.Result, error) {
	live := r.pass.tried(key)
	src, err := r.source(ctx, key)
	if err != nil {
		return reconcile.Result{}, err
	}
	// If the mark can't be honoured for the moment, what is on the hub still follows the Service.
	waiting, marking := r.honourMark(ctx, src)
	if waiting {
		return reconcile.Result{}, nil
	}

	var have Records
	var others []*door.Export
	ready := r.synced()
	if ready {
		have, others = r.records(key, live)
		if src.Export != nil && src.Export.DeletionTimestamp == nil && !have.Service.Exports() && r.full(key.Namespace) {
			src.Full = r.perNamespace
		}
	}
	defer r.gatherExternal(&src, have)()
	want := desired(src)
	// Before the hub's cache has synced, every record would seem missing. The first pass brings every key back then, so there
	// is nothing to requeue.
	out := outcome{err: r.unheard()}
	var withdrawal decision
	if ready {
		if want, withdrawal, err = r.staying(ctx, src, want, have.Service, known, marking != nil && !rejected(marking)); err != nil {
			return reconcile.Result{}, errors.Join(marking, err)
		}
		var wait time.Duration
		if out, wait = r.bring(ctx, key, have, want, known); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	var conflict *metav1.Condition
	if !errors.Is(out.err, errNotSynced) {
		conflict = conflictOf(want.Service, others, r.onHub.Member)
	}
	if !errors.As(out.err, new(pausedError)) {
		out.failing = known.failing.note(out.transient() != nil)
	}
	out.refusing = known.refusing.note(out.refused)
	known.counted.replace(entryOf(src, want, out, conflict, withdrawal.held))
	if out.err == nil || out.refused || out.outdated() { // what the hub refuses must not hold back the whole cluster's heartbeat
		r.pass.done(key, live, out.outdated())
	}
	later, err := r.report(ctx, src, want, out, conflict, known)
	if src.Full > 0 {
		later = soonest(later, retryRefused)
	}
	return requeue(out, soonest(withdrawal.retry, later), errors.Join(marking, err))
}

// bring makes the hub have what it should of a service, or returns how long to leave what somebody else changed there.
func (r *reconciler) bring(ctx context.Context, key types.NamespacedName, have Records, want Desired, known *serviceState) (outcome, time.Duration) {
	if have.Service != nil {
		known.exported, known.revision = have.Service.Exports(), max(known.revision, have.Service.Spec.RevisionAt(r.now()))
	} else if r.states.wasExpired(key) {
		known.exported, known.revision = false, 0
	} else if want.Service == nil && known.lost(r.now()) {
		want.Service = withdrawn(&clustersetv1alpha1.ExportedService{
			ObjectMeta: record.Meta(r.cluster, key, api.ExportedServiceName(key.Namespace, key.Name)),
			Spec: clustersetv1alpha1.ExportedServiceSpec{
				ServiceNamespace: key.Namespace, ServiceName: key.Name, Type: mcsv1beta1.ClusterSetIP, ExportedAt: metav1.NewTime(r.now()),
			},
		})
	}
	steps := plan(have, want, numbering{r.now(), known.revision})
	if len(steps) == 0 {
		if have.Service == nil && want.Service == nil {
			known.revision = 0
		}
		return outcome{}, 0
	}
	if !known.mayWrite() {
		return outcome{}, writeEvery
	}
	if err := r.limiter.ask(!known.failing.IsZero()); err != nil {
		return outcome{err: err}, 0
	}
	for _, s := range steps {
		if service, ok := s.object.(*clustersetv1alpha1.ExportedService); ok && s.verb != verbDelete {
			known.revision = service.Spec.Revision // also if we never learn whether it was written
		}
	}
	out := r.write(ctx, steps)
	if out.transient() == nil || out.outdated() {
		r.limiter.answered()
	} else {
		r.limiter.failed()
	}
	if out.err == nil {
		known.exported = want.Service != nil && want.Service.Exports()
	}
	return out, 0
}

// soonest returns the shortest of some waits, of which 0 is none.
func soonest(waits ...time.Duration) (wait time.Duration) {
	for _, w := range waits {
		if w > 0 && (wait == 0 || w < wait) {
			wait = w
		}
	}
	return wait
}

// requeue returns when a service is reconciled again: after retry, if nothing else is sooner. reported is the error of creating its ServiceExport or
// of reporting on it.
func requeue(out outcome, retry time.Duration, reported error) (reconcile.Result, error) {
	failed := out.transient()
	var paused pausedError
	switch {
	case failed == nil && apierrors.IsConflict(reported), reported == nil && out.outdated(): // our cache is behind, most likely our own writes
		return reconcile.Result{RequeueAfter: retryConflict}, nil
	case reported != nil:
		return reconcile.Result{}, errors.Join(reported, failed)
	case out.refused:
		return reconcile.Result{RequeueAfter: soonest(retry, min(max(out.refusing, retrySoon), retryRefused))}, nil
	case errors.As(failed, &paused):
		return reconcile.Result{RequeueAfter: time.Duration(paused)}, nil
	case failed == nil && retry > 0:
		// What could wait isn't urgent: when many are due at once, changes of other services come first.
		return reconcile.Result{RequeueAfter: retry, Priority: new(handler.LowPriority)}, nil
	}
	return reconcile.Result{}, failed
}

// honourMark creates or deletes the ServiceExport for a mark on the Service. waiting means that it did so: the event that
// follows brings the key back.
func (r *reconciler) honourMark(ctx context.Context, src Source) (waiting bool, err error) {
	if export := markedExport(src.Service, src.Marked, src.Export); export != nil {
		switch err := r.exports.create(ctx, export); {
		case err == nil:
			r.events.Eventf(src.Service, nil, corev1.EventTypeNormal, "ServiceExportCreated", "Export",
				"Created a ServiceExport because of %s", api.KeyGlobalService)
			return true, nil
		case apierrors.IsAlreadyExists(err): // our cache will have it in a moment
			return true, nil
		case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
			return false, nil
		default:
			if rejected(err) {
				r.events.Eventf(src.Service, nil, corev1.EventTypeWarning, "ServiceExportRefused", "Export", "%s", text.Truncate(err.Error(), maxNote))
			}
			return false, fmt.Errorf("create ServiceExport %s: %w", src.Key, err)
		}
	}
	if unmarkedExport(src.Service, src.Marked, src.Export) {
		if err := r.exports.delete(ctx, src.Export); err != nil && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("delete ServiceExport %s: %w", src.Key, err)
		}
		return true, nil
	}
	return false, nil
}

// upToDate returns once the hub has what it should of this cluster, which may not be so when the hub was away or has been restored. It reconciles
// every service with what the hub itself has. Services that fail are waited for until a minute after the hub answered first. If ctx ends before, the
// error is errBehind. One goroutine at a time may call it.
func (r *reconciler) upToDate(ctx context.Context) error {
	services, err := r.everything(ctx)
	if err != nil {
		r.behind = time.Time{}
		return err
	}
	if r.behind.IsZero() {
		r.behind = time.Now()
	}
	r.limiter.hurry()
	if err := r.pass.all(ctx, services, r.behind.Add(passPatience)); err != nil {
		return err
	}
	r.behind = time.Time{}
	return nil
}

// firstPass brings the hub up to date once both sides can be read, and closes finished.
func (r *reconciler) firstPass(ctx context.Context) error {
	said := ""
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (done bool, err error) {
		if err = errNotSynced; r.synced() {
			err = r.upToDate(ctx)
		}
		if err != nil && err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			log.FromContext(ctx).WithName("first-pass").Info("Waiting for the hub before the first export pass", "reason", said)
		}
		return err == nil, nil
	})
	if err == nil {
		metricFirstPass.Set(1)
		close(r.pass.finished)
	}
	return nil // it was stopped
}

// nodesChanged reconciles the Services that are reached at ports of the nodes.
func (r *reconciler) nodesChanged(ctx context.Context) {
	var services corev1.ServiceList
	if err := r.local.List(ctx, &services, client.UnsafeDisableDeepCopy); err != nil {
		return // it is stopping
	}
	var keys []types.NamespacedName
	for i := range services.Items {
		if hasNodePort(&services.Items[i]) {
			keys = append(keys, client.ObjectKeyFromObject(&services.Items[i]))
		}
	}
	r.pass.send(ctx, keys)
}

// reportIn reconciles the ServiceExports of namespaces.
func (r *reconciler) reportIn(ctx context.Context, in func(namespace string) bool) {
	all, err := r.exports.list(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Can't report on the ServiceExports that nothing is exported")
		return
	}
	var keys []types.NamespacedName
	for _, export := range all {
		if in(export.GetNamespace()) {
			keys = append(keys, client.ObjectKeyFromObject(export))
		}
	}
	r.pass.send(ctx, keys)
}

// entryOf returns what a service adds to the gauges.
func entryOf(src Source, want Desired, out outcome, conflict *metav1.Condition, held bool) entry {
	e := entry{leftOut: want.LeftOut.Count, conflict: conflict != nil && conflict.Status == metav1.ConditionTrue}
	switch {
	case held:
		return entry{state: stateHeld}
	case src.Export == nil || src.Export.DeletionTimestamp != nil:
		return entry{}
	case want.Refused != nil:
		e.state = stateRefused
	case out.refused:
		e.state = stateFailed
	case out.err != nil:
		e.state = statePending
	default:
		e.state = stateExported
		for i := range want.Endpoints {
			if spec := &want.Endpoints[i].Spec; !spec.External {
				e.endpoints += len(spec.Endpoints)
			}
		}
	}
	return e
}
