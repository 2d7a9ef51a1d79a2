package exporter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/schema"
)

// outcome is the result of writing a service's records to the hub.
type outcome struct {
	err      error         // nil if the hub has what it should
	refused  bool          // the hub rejected a record: a retry doesn't help until someone changes something
	failing  time.Duration // how long it has been failing, if it isn't refused
	refusing time.Duration // how long it has been refused
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

// write executes a plan's steps in order. It continues after a step that the hub rejects: a single record too many or too large
// must not keep the others from being updated.
func (r *reconciler) write(ctx context.Context, steps []step) outcome {
	var refusals []error
	for _, s := range steps {
		err := r.apply(ctx, s)
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

func (r *reconciler) apply(ctx context.Context, s step) error {
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
