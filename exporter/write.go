package exporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/schema"
	"github.com/clusterset/clusterset/internal/text"
)

// write executes a plan's steps in order. It continues after a step that the hub rejects: a single record too many or too large
// must not keep the others from being updated.
func (r *reconciler) write(ctx context.Context, steps []step) outcome {
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
		case result != resultRefused:
			return outcome{err: err}
		default:
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
	case rejected(err):
		return resultRefused
	case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
		return resultConflict
	}
	return resultError
}

// hubTimeout is how long a request to the hub may take: longer than an API server usually waits for a webhook (10 s), so that the reason of a
// failure is known.
const hubTimeout = 15 * time.Second

func (r *reconciler) take(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	switch s.verb {
	case verbCreate:
		return r.hub.Create(ctx, s.object, client.FieldOwner(api.FieldManagerExporter))
	case verbUpdate:
		return r.hub.Update(ctx, s.object, client.FieldOwner(api.FieldManagerExporter))
	default:
		// Someone may have deleted it so that it waits for a garbage collector. A bare API server has none, and this deletion doesn't wait.
		return client.IgnoreNotFound(r.hub.Delete(ctx, s.object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
}

// rejected reports whether the hub understood and rejected the record: it is invalid or too large, over a quota, against a
// policy, or in a namespace that doesn't exist, for example after a leave. Everything else is temporary: no connection, an expired
// token, a hub that is starting, or one that loses our CustomResourceDefinitions, which both say so with a 403, or one that has lost them, whose
// response is a bare 404 without a Status.
func rejected(err error) bool {
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

// outdated reports whether the hub has other records than those that the plan was made for.
func (o outcome) outdated() bool {
	return apierrors.IsConflict(o.err) || apierrors.IsAlreadyExists(o.err)
}

// ofPeersRetry is when to look again at what other clusters changed too often.
const ofPeersRetry = time.Minute

// report writes the ServiceExport's conditions if they changed, and Events about what people may have to act on. It returns how long it leaves
// that, if it does.
func (r *reconciler) report(
	ctx context.Context, src Source, want Desired, out outcome, conflict *metav1.Condition, known *serviceState,
) (time.Duration, error) {
	if src.Export == nil || src.Export.DeletionTimestamp != nil {
		return 0, nil
	}
	export := src.Export.DeepCopy()
	transitions, changed := setConditions(export, append(wantedConditions(src.Export, want, out, conflict), r.visible.conditions(src.Key.Namespace, want)...))
	switch {
	case changed.Len() == 0:
		return 0, nil
	case changed.Delete(string(mcsv1beta1.ServiceExportConditionConflict), api.ConditionImported).Len() == 0 && !r.ofPeers.Allow():
		return ofPeersRetry, nil
	case !known.mayWrite():
		return writeEvery, nil
	}
	// One that isn't found has just been deleted, or its definition has no status: then Events say what the conditions would.
	if err := r.exports.patchStatus(ctx, src.Export, export); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("patch status of ServiceExport %s: %w", src.Key, err)
	}
	for _, c := range transitions {
		if kind, worth := eventType(c); worth {
			reason, _, _ := strings.Cut(c.Reason, ",") // the first of several conflicts: all may be too long for an Event
			r.events.Eventf(r.exports.version.EncodeExport(export), nil, kind, reason, "Export", "%s", text.Truncate(c.Message, maxNote))
		}
	}
	return 0, nil
}

// maxNote keeps an Event's note within the API's limit of 1 KiB, with an ellipsis.
const maxNote = 1024 - len("…")

// eventType reports whether a condition that was just reached is worth an Event, and its type.
func eventType(c metav1.Condition) (kind string, worth bool) {
	bad := c.Status == metav1.ConditionFalse
	switch mcsv1beta1.ServiceExportConditionType(c.Type) {
	case mcsv1beta1.ServiceExportConditionConflict:
		return corev1.EventTypeWarning, !bad
	case mcsv1beta1.ServiceExportConditionReady:
		if c.Status == metav1.ConditionTrue {
			return corev1.EventTypeNormal, true
		}
		return corev1.EventTypeWarning, bad && c.Reason == string(mcsv1beta1.ServiceExportReasonFailed)
	}
	return corev1.EventTypeWarning, bad && c.Type != api.ConditionVisible && c.Type != api.ConditionReachable // these aren't wrong by themselves
}
