package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/namespaces"
	"github.com/clusterset/clusterset/internal/nodes"
	"github.com/clusterset/clusterset/internal/record"
	"github.com/clusterset/clusterset/internal/text"
)

// retryRefused is when to retry what the hub or the member rejected: we aren't notified when a quota is raised. What the hub rejects is retried at
// first after retrySoon, and then at doubled pauses: its policy learns of other networks at the same time as we do.
const retryRefused, retrySoon = time.Minute, 2 * time.Second

// retryConflict is how long to wait for our cache to catch up with a write, most likely our own.
const retryConflict = 200 * time.Millisecond

// reconciler makes one service's records on the hub match its source, and reports it on its ServiceExport.
type reconciler struct {
	cluster      string
	from         namespaces.Filter // that is exported from
	local        client.Reader     // the member's cache
	exports      serviceExports
	hub          client.Client
	onHub        hubStore
	synced       func() bool  // whether both caches have synced and the name is ours
	unheard      func() error // why it can't or isn't
	events       events.EventRecorder
	pass         *exportPass
	states       serviceStates
	dropped      sync.Map // services whose withdrawn records were deleted as too many
	limiter      limiter
	withdrawals  withdrawalGuard
	perNamespace int // services of one namespace that are exported
	visible      visibility
	nodes        *nodes.Nodes
	names        *resolver
	ofPeers      *rate.Limiter // for what ServiceExports say of conflicts and missing namespaces, which other clusters change

	behind time.Time // since when upToDate hasn't succeeded
	now    func() time.Time
}

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
	defer r.gatherExternal(ctx, &src, have)()
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
	} else if _, dropped := r.dropped.LoadAndDelete(key); dropped {
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
		low := handler.LowPriority
		return reconcile.Result{RequeueAfter: retry, Priority: &low}, nil
	}
	return reconcile.Result{}, failed
}

// errNotSynced is returned until the hub has been read.
var errNotSynced = errors.New("the cache of the hub hasn't synced")

// source reads the member's objects of a service.
func (r *reconciler) source(ctx context.Context, key types.NamespacedName) (Source, error) {
	src := Source{Cluster: r.cluster, Key: key, Excluded: !r.from.Has(key.Namespace)}
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
	export, err := r.exports.get(ctx, key)
	if err != nil {
		return src, err
	}
	src.Export = export
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
func (r *reconciler) gatherExternal(ctx context.Context, src *Source, have Records) (done func()) {
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
