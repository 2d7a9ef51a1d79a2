package exporter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/schema"
	"github.com/clusterset/clusterset/internal/text"
)

// writeInTurn writes a service's records unless the hub fails and it isn't the service's turn.
func (r *reconciler) writeInTurn(ctx context.Context, key types.NamespacedName, steps []step, unread *unread) outcome {
	if err := r.gate.ask(key); err != nil {
		return outcome{err: err}
	}
	out := r.write(ctx, steps, unread)
	switch err := out.transient(); {
	case err == nil || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		r.gate.answered(key)
	default:
		r.gate.failed(key, err)
	}
	return out
}

// write executes a plan's steps in order. It continues after a step that the hub rejects: a single record too many or too large
// must not keep the others from being updated.
func (r *reconciler) write(ctx context.Context, steps []step, unread *unread) outcome {
	var refusals []error
	for _, s := range steps {
		err := r.take(ctx, s)
		if err != nil {
			err = fmt.Errorf("%s %s %s: %w", s.verb, s.kind, client.ObjectKeyFromObject(s.object), err)
		}
		result := resultOf(err)
		metricWrites.WithLabelValues(s.kind, string(s.verb), result).Inc()
		switch {
		case err == nil:
			unread.note(s)
		case result != resultRefused:
			return outcome{err: err}
		case s.verb != verbWithdraw: // else the deletion that follows has the same effect, only later
			refusals = append(refusals, err)
		}
	}
	return outcome{err: errors.Join(refusals...), refused: len(refusals) > 0}
}

// The results of a write, label values of clusterset_exporter_hub_writes_total.
const resultOK, resultRefused, resultConflict, resultError = "ok", "refused", "conflict", "error"

func resultOf(err error) string {
	switch {
	case err == nil:
		return resultOK
	case refused(err):
		return resultRefused
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return resultConflict
	}
	return resultError
}

// unreadFor is how long a write is expected to be on its way into our cache. After that the hub was restored, or the watch hangs.
const unreadFor = time.Second

// unread are our last writes of a service's records, by kind and name, until the cache has them. A service that is reconciled before would be
// written once more, in vain: the hub refuses an update of an earlier version. A hub that is back would get each record twice.
type unread map[string]unreadWrite

type unreadWrite struct {
	version uint64
	at      time.Time
}

func (u *unread) note(s step) {
	at := s.kind + s.object.GetName()
	if s.verb == verbDelete {
		delete(*u, at)
	}
	version, err := strconv.ParseUint(s.object.GetResourceVersion(), 10, 64)
	if err != nil || s.verb != verbCreate && s.verb != verbUpdate {
		return // it is opaque, or says nothing of the record's content
	}
	if *u == nil {
		*u = unread{}
	}
	(*u)[at] = unreadWrite{version, time.Now()}
}

// wait returns how long to wait before steps that were planned without our last writes. The event that ends that comes sooner.
func (u unread) wait(steps []step) (wait time.Duration) {
	for _, s := range steps {
		at := s.kind + s.object.GetName()
		last, known := u[at]
		if !known {
			continue
		}
		has, err := strconv.ParseUint(s.object.GetResourceVersion(), 10, 64)
		left := unreadFor - time.Since(last.at)
		if left <= 0 || s.verb != verbCreate && (err != nil || has >= last.version) {
			delete(u, at)
			continue
		}
		wait = max(wait, left)
	}
	return wait
}

// hubTimeout is how long a request to the hub may take: longer than an API server usually waits for a webhook (10 s), so that the reason of a
// failure is known.
const hubTimeout = 15 * time.Second

func (r *reconciler) take(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	switch s.verb {
	case verbCreate:
		err := r.hub.Create(ctx, s.object, client.FieldOwner(api.FieldManagerExporter))
		if apierrors.IsAlreadyExists(err) {
			return r.adopt(ctx, s.object)
		}
		return err
	case verbUpdate:
		return r.hub.Update(ctx, s.object, client.FieldOwner(api.FieldManagerExporter))
	case verbWithdraw:
		return client.IgnoreNotFound(r.hub.Patch(ctx, s.object, withdrawal, client.FieldOwner(api.FieldManagerExporter)))
	default:
		// Someone may have deleted it so that it waits for a garbage collector. A bare API server has none, and this deletion doesn't wait.
		return client.IgnoreNotFound(r.hub.Delete(ctx, s.object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
}

// withdrawal has no optimistic lock: the record is deleted even if someone has changed it meanwhile.
var withdrawal = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+api.AnnotationWithdrawn+`":"true"}}}`))

// refused reports whether the hub understood and rejected the record: it is invalid or too large, over a quota, against a
// policy, or in a namespace that doesn't exist, for example after a leave. Everything else is temporary: no connection, an expired
// token, a hub that is starting, or one that loses our CustomResourceDefinitions, which both say so with a 403, or one that has lost them, whose
// response is a bare 404 without a Status.
func refused(err error) bool {
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) || schema.Terminating(err) ||
		strings.Contains(err.Error(), "not yet ready to handle request") {
		return false
	}
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsNotFound(err)
}

// transient returns the error that a retry may resolve, or nil.
func (o outcome) transient() error {
	if o.refused || errors.Is(o.err, errNotSynced) {
		return nil
	}
	return o.err
}

// report writes the ServiceExport's conditions if they changed, and Events about what people may have to act on. It returns how long it leaves
// that, if it does.
func (r *reconciler) report(
	ctx context.Context, src Source, want Desired, out outcome, conflict *metav1.Condition, last *toldConditions,
) (time.Duration, error) {
	if src.Export == nil || src.Export.DeletionTimestamp != nil {
		*last = toldConditions{}
		return 0, nil
	}
	export := src.Export.DeepCopy()
	transitions, changed := setConditions(export, append(conditions(src.Export, want, out, conflict), r.visible.conditions(src.Key.Namespace, want)...))
	if !changed {
		return 0, nil
	}
	says := versionOfConditions(export)
	restores := says == last.says
	if wait := rewriteEvery - time.Since(last.restored); restores && wait > 0 {
		return wait, nil
	}
	alone := onlyOthers(src.Export.Status.Conditions, export.Status.Conditions)
	if alone && time.Since(last.others) < othersSeldom && !r.others.Allow() {
		return othersRetry, nil
	}
	err := r.exports.patchStatus(ctx, src.Export, export)
	gone := apierrors.IsNotFound(err) // or its definition has no status: then it is still there after a while, and has its Events
	if gone && restores {
		r.statusless.Do(func() {
			log.FromContext(ctx).Info("The definition of ServiceExport has no status subresource, so there are no conditions; clusterset doctor says more")
		})
	} else if err != nil && !gone {
		return 0, fmt.Errorf("patch status of ServiceExport %s: %w", src.Key, err)
	}
	last.says = says
	if alone {
		last.others = time.Now()
	}
	if restores || gone {
		last.restored = time.Now()
	}
	if restores {
		return 0, nil // it is no news
	}
	for _, c := range transitions {
		if kind, worth := eventType(c); worth {
			r.events.Eventf(r.exports.version.EncodeExport(export), nil, kind, eventReason(c), "Export", "%s", text.Truncate(c.Message, maxNote))
		}
	}
	if gone {
		return rewriteEvery, nil
	}
	return 0, nil
}

// maxNote keeps an Event's note within the API's limit of 1 KiB, with an ellipsis.
const maxNote = 1024 - len("…")

// maxReason is the API's longest reason of an Event.
const maxReason = 128

// eventReason returns the condition's reason, or a shorter one if the reasons of many conflicts exceed an Event's limit.
func eventReason(c metav1.Condition) string {
	if len(c.Reason) > maxReason {
		return c.Type
	}
	return c.Reason
}

// eventType reports whether a condition that was just reached is worth an Event, and its type.
func eventType(c metav1.Condition) (string, bool) {
	bad := c.Status == metav1.ConditionFalse
	switch mcsv1beta1.ServiceExportConditionType(c.Type) {
	case mcsv1beta1.ServiceExportConditionConflict:
		if !bad {
			return corev1.EventTypeWarning, true
		}
		return "", false // the absence of conflicts isn't worth an Event
	case mcsv1beta1.ServiceExportConditionReady:
		if c.Status == metav1.ConditionTrue {
			return corev1.EventTypeNormal, true
		}
		return corev1.EventTypeWarning, bad && c.Reason == string(mcsv1beta1.ServiceExportReasonFailed)
	case api.ConditionVisible, api.ConditionReachable:
		return "", false // not by itself wrong
	default:
		return corev1.EventTypeWarning, bad
	}
}
