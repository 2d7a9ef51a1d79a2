package exporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/text"
)

// wantedConditions returns the ServiceExport's wanted conditions: Valid, Ready, Complete, Shared and Conflict. Without a conflict condition, because
// the other clusters' exports aren't known yet, the existing one stays. One without a status isn't wanted.
func wantedConditions(export *mcsv1beta1.ServiceExport, d Desired, out outcome, conflict *metav1.Condition) []metav1.Condition {
	valid := mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionValid, metav1.ConditionTrue,
		mcsv1beta1.ServiceExportReasonValid, "the Service can be exported")
	if d.Refused != nil {
		valid = mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionValid, metav1.ConditionFalse, d.Refused.Reason, d.Refused.Message)
	}
	all := []metav1.Condition{valid, readyCondition(export, d, out), completeCondition(d.LeftOut), sharedCondition(d.Service)}
	if conflict != nil {
		all = append(all, *conflict)
	}
	return all
}

func readyCondition(export *mcsv1beta1.ServiceExport, d Desired, out outcome) metav1.Condition {
	ready := func(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason, msg string) metav1.Condition {
		return mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionReady, status, reason, msg)
	}
	const False, Unknown = metav1.ConditionFalse, metav1.ConditionUnknown
	const pending, failed = mcsv1beta1.ServiceExportReasonPending, mcsv1beta1.ServiceExportReasonFailed
	was := meta.FindStatusCondition(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady))
	wasReady := was != nil && was.Status == metav1.ConditionTrue
	var stopped *suspended
	switch {
	case d.Refused != nil && d.Refused.Reason == mcsv1beta1.ServiceExportReasonNoService:
		return ready(False, pending, d.Refused.Message)
	case d.Refused != nil:
		return ready(False, failed, d.Refused.Message)
	case errors.As(out.err, &stopped):
		return ready(False, mcsv1beta1.ServiceExportConditionReason(stopped.reason), stopped.message)
	case out.refused:
		return ready(False, failed, "the hub refuses the export: "+out.err.Error())
	case out.err != nil && answeredByHub(out.err) && (out.failing >= passPatience || !wasReady):
		return ready(Unknown, pending, "the hub doesn't accept the export at the moment: "+out.err.Error())
	case out.err != nil && wasReady:
		// The hub is unreachable or fails temporarily. It still serves what it has, so an export that is ready stays ready:
		// otherwise every short interruption would rewrite every ServiceExport.
		return *was
	case out.err != nil:
		return ready(Unknown, pending, "waiting for the hub")
	}
	return ready(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonExported, "the Service is exported to the hub")
}

// answeredByHub reports whether the rejection came from the hub. Then the message is the hub's, and the same each time.
func answeredByHub(err error) bool {
	return errors.As(err, new(apierrors.APIStatus)) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err)
}

// completeCondition names what somebody wrote and isn't used (rule C61 of docs/spec/control-plane.md). It isn't wanted if there is nothing.
func completeCondition(left api.LeftOut) metav1.Condition {
	c := metav1.Condition{Type: api.ConditionComplete}
	if left.Count > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, api.ReasonNotUsed, left.String()
	}
	return c
}

// sharedCondition says what the share of an export means (rule C62 of docs/spec/control-plane.md). It isn't wanted if all endpoints are used as usual.
func sharedCondition(exported *clustersetv1alpha1.ExportedService) metav1.Condition {
	c := metav1.Condition{Type: api.ConditionShared}
	if exported == nil || exported.Spec.Share == nil || *exported.Spec.Share == 100 {
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, api.ReasonShare
	c.Message = fmt.Sprintf("at most %d%% of this cluster's ready endpoints are used as usual, the others only if nothing else is left", *exported.Spec.Share)
	if exported.Spec.Type == mcsv1beta1.ClusterSetIP && *exported.Spec.Share > 0 {
		c.Message += "; where one address stands for the Service (its ClusterIP with --data-path=clusterips or none and in svc.global, external addresses), all of it is used"
	}
	return c
}

// conflictOf returns the Conflict condition of our ServiceExport. Every exporter merges the same records itself, so that every
// ServiceExport involved gets the condition, including the winner's (KEP-1645, "Constraints and Conflict Resolution"), although
// no member can write in another.
//
// own is our record as it should be, which the hub may not have yet. It is nil if we export nothing, which conflicts with
// nothing. Only the others that this cluster sees count.
func conflictOf(own *clustersetv1alpha1.ExportedService, others []*door.Export, member func(cluster string) *clustersetv1alpha1.MemberCluster) *metav1.Condition {
	if own == nil {
		return new(mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionFalse,
			mcsv1beta1.ServiceExportReasonNoConflicts, "nothing is exported"))
	}
	us, _ := own.SourceCluster()
	visible := merge.Visible(us, member)
	exports, _ := merge.Exports(append([]*door.Export{door.CompactService(own, time.Now())}, others...), merge.JoinedBy(member))
	exports = slices.DeleteFunc(exports, func(e merge.Export) bool { return !visible(e.Cluster, e.Spec.ExportTo) })
	resolved := merge.Resolve(exports)
	return new(resolved.ConflictCondition())
}

// setConditions sets conditions on a ServiceExport, and removes those without a status. It returns those that changed in status or reason,
// which are worth an Event, and the types of those that changed at all. Conditions of other writers stay.
func setConditions(export *mcsv1beta1.ServiceExport, want []metav1.Condition) (events []metav1.Condition, changed sets.Set[string]) {
	changed = sets.New[string]()
	for _, c := range want {
		if c.Status == "" {
			if meta.RemoveStatusCondition(&export.Status.Conditions, c.Type) {
				changed.Insert(c.Type)
			}
			continue
		}
		if c.ObservedGeneration == 0 { // one that is kept was based on an earlier one
			c.ObservedGeneration = export.Generation
		}
		c.Message = text.Truncate(c.Message, maxMessage)
		was := meta.FindStatusCondition(export.Status.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason && c.Type == string(mcsv1beta1.ServiceExportConditionConflict) &&
			merge.SameButCounts(was.Message, c.Message) {
			c.Message = was.Message
		}
		if was == nil || was.Status != c.Status || was.Reason != c.Reason || c.Type == api.ConditionImported && was.Message != c.Message {
			events = append(events, c)
		}
		if meta.SetStatusCondition(&export.Status.Conditions, c) {
			changed.Insert(c.Type)
		}
	}
	return events, changed
}

// maxMessage keeps a condition's message within the 32 KiB that the API takes, with an ellipsis.
const maxMessage = 32768 - len("…")

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
