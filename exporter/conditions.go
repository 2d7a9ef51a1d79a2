package exporter

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/internal/text"
)

// outcome is the result of writing a service's records to the hub.
type outcome struct {
	// err is nil if the hub has what it should.
	err error

	// refused is set if the hub rejected a record: a retry doesn't help until someone changes something.
	refused bool

	// failing is how long it has been failing, if it isn't refused.
	failing time.Duration
}

// conditions returns the ServiceExport's wanted conditions: Valid, Ready and Conflict. Without a conflict condition, because
// the other clusters' exports aren't known yet, the existing one stays.
func conditions(export *mcsv1beta1.ServiceExport, d Desired, out outcome, conflict *metav1.Condition) []metav1.Condition {
	all := []metav1.Condition{validCondition(d), readyCondition(export, d, out)}
	if conflict != nil {
		all = append(all, *conflict)
	}
	return all
}

func validCondition(d Desired) metav1.Condition {
	if d.Refused != nil {
		return mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionValid, metav1.ConditionFalse,
			d.Refused.Reason, d.Refused.Message)
	}
	return mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionValid, metav1.ConditionTrue,
		mcsv1beta1.ServiceExportReasonValid, "the Service can be exported")
}

func readyCondition(export *mcsv1beta1.ServiceExport, d Desired, out outcome) metav1.Condition {
	ready := func(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason, msg string) metav1.Condition {
		return mcsv1beta1.NewServiceExportCondition(mcsv1beta1.ServiceExportConditionReady, status, reason, msg)
	}
	var stopped *suspended
	switch {
	case d.Refused != nil && d.Refused.Reason == mcsv1beta1.ServiceExportReasonNoService:
		return ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonPending, d.Refused.Message)
	case d.Refused != nil:
		return ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonFailed, d.Refused.Message)
	case errors.As(out.err, &stopped):
		return ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportConditionReason(stopped.reason), stopped.message)
	case out.refused:
		return ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonFailed, "the hub refuses the export: "+out.err.Error())
	case out.err != nil && answered(out.err) && (out.failing >= passPatience || !meta.IsStatusConditionTrue(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady))):
		return ready(metav1.ConditionUnknown, mcsv1beta1.ServiceExportReasonPending, "the hub doesn't accept the export at the moment: "+out.err.Error())
	case out.err != nil:
		// The hub is unreachable or fails temporarily. It still serves what it has, so an export that is ready stays ready:
		// otherwise every short interruption would rewrite every ServiceExport.
		if was := meta.FindStatusCondition(export.Status.Conditions, string(mcsv1beta1.ServiceExportConditionReady)); was != nil &&
			was.Status == metav1.ConditionTrue {
			return *was
		}
		return ready(metav1.ConditionUnknown, mcsv1beta1.ServiceExportReasonPending, "waiting for the hub")
	}
	return ready(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonExported, exportedMessage(d.LeftOut))
}

// answered reports whether the rejection came from the hub. Then the message is the hub's, and the same each time.
func answered(err error) bool {
	return errors.As(err, new(apierrors.APIStatus)) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err)
}

// exportedMessage lists what was left out, if anything, so that a user sees why a label or a port is missing.
func exportedMessage(left api.LeftOut) string {
	const shown = 3
	if left.Count == 0 {
		return "the Service is exported to the hub"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the Service is exported to the hub, except for %d of its values: ", left.Count)
	for i, err := range left.Errors {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more", left.Count-shown)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(err.Error())
	}
	return b.String()
}

// setConditions sets conditions on a ServiceExport. It returns those that changed in status or reason, which are worth an
// Event, and whether the object changed at all. Conditions of other writers stay.
func setConditions(export *mcsv1beta1.ServiceExport, want []metav1.Condition) (events []metav1.Condition, changed bool) {
	for _, c := range want {
		c.ObservedGeneration = export.Generation
		c.Message = text.Truncate(c.Message, maxMessage)
		was := meta.FindStatusCondition(export.Status.Conditions, c.Type)
		if was != nil && was.Status == c.Status && was.Reason == c.Reason && c.Type == string(mcsv1beta1.ServiceExportConditionConflict) &&
			merge.SameButCounts(was.Message, c.Message) {
			c.Message = was.Message
		}
		if was == nil || was.Status != c.Status || was.Reason != c.Reason {
			events = append(events, c)
		}
		if meta.SetStatusCondition(&export.Status.Conditions, c) {
			changed = true
		}
	}
	return events, changed
}

// maxMessage keeps a condition's message within the 32 KiB that the API takes, with an ellipsis.
const maxMessage = 32768 - len("…")
