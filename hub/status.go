package hub

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// statusOf returns the wanted status of a MemberCluster, without what the member reports. It differs from the current one only if something
// happened that is worth waking every member for, because all watch it: a heartbeat isn't, nor is an export.
func statusOf(mc *clustersetv1alpha1.MemberCluster, d liveness.Decision, now time.Time) clustersetv1alpha1.MemberClusterStatus {
	status := *mc.Status.DeepCopy()
	status.Phase = d.Phase
	switch silent := d.Phase == clustersetv1alpha1.MemberSuspect || d.Phase == clustersetv1alpha1.MemberExpired; {
	case !silent:
		status.LastHeartbeatTime = nil // the Lease has the time
	case mc.Status.Phase != d.Phase && !d.Heard.IsZero():
		status.LastHeartbeatTime = &metav1.Time{Time: d.Heard}
	}
	for _, c := range conditions(mc, d) {
		c.LastTransitionTime = metav1.NewTime(now)
		setCondition(&status, c)
	}
	return status
}

// copyReport copies what concerns all members from a member's report, apart from what it doesn't say. full says that the member has as many services
// on the hub as it may.
func copyReport(status *clustersetv1alpha1.MemberClusterStatus, report clustersetv1alpha1.MemberReportSpec, full bool) {
	if report.AgentVersion != "" {
		status.AgentVersion = report.AgentVersion
	}
	if report.Zones != nil { // empty isn't nil: that there are none is known
		status.Zones = slices.Sorted(slices.Values(report.Zones))
	}
	if report.Namespaces != nil {
		status.Namespaces = ""
		if clustersetv1alpha1.ParseNamespaces(*report.Namespaces) != nil {
			status.Namespaces = *report.Namespaces
		}
	}
	setCondition(status, when(full, metav1.Condition{
		Type: clustersetv1alpha1.ConditionLimited, Status: metav1.ConditionTrue, Reason: clustersetv1alpha1.ReasonTooManyServices,
		Message: "the cluster has as many services on the hub as it may (--max-services), and more are refused; check whether its token was stolen, or raise the limit",
	}))
}

// conditions returns a MemberCluster's conditions; those without a status are absent. Their messages contain no time except that of the last
// heartbeat: one that counted seconds would be rewritten at every look.
func conditions(mc *clustersetv1alpha1.MemberCluster, d liveness.Decision) []metav1.Condition {
	since := "since " + d.Heard.UTC().Format(time.RFC3339)
	if d.Heard.IsZero() {
		since = "for long"
	}
	ready := metav1.Condition{
		Type: clustersetv1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: clustersetv1alpha1.ReasonNoHeartbeat,
		Message: "the cluster has never sent a heartbeat",
	}
	switch d.Phase {
	case clustersetv1alpha1.MemberReady:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, clustersetv1alpha1.ReasonHeartbeatSeen, "the cluster renews its heartbeat"
		if d.Paused {
			ready.Message = "no heartbeat " + since + ", nor anyone else's; the cluster counts as healthy until others are heard"
		}
	case clustersetv1alpha1.MemberSuspect:
		ready.Status, ready.Reason = metav1.ConditionFalse, clustersetv1alpha1.ReasonHeartbeatMissed
		ready.Message = "no heartbeat " + since + "; the cluster's endpoints rank behind those of healthy clusters"
	case clustersetv1alpha1.MemberExpired:
		ready.Status, ready.Reason = metav1.ConditionFalse, clustersetv1alpha1.ReasonHeartbeatExpired
		ready.Message = "no heartbeat " + since + "; the cluster's endpoints aren't answered until it returns"
	}
	wrong := ""
	if errs := mc.Validate(); len(errs) > 0 {
		wrong = errs[0].Error()
		if more := len(errs) - 1; more > 0 {
			wrong += fmt.Sprintf("; and %d more", more)
		}
	}
	// Forgotten until it is heard, also by a process that hasn't listened for long enough yet.
	forgotten := d.Forget || !mc.ForgottenAt().IsZero() && d.Phase != clustersetv1alpha1.MemberReady
	return []metav1.Condition{
		ready,
		when(d.Paused, metav1.Condition{
			Type: clustersetv1alpha1.ConditionExpiryPaused, Status: metav1.ConditionTrue, Reason: clustersetv1alpha1.ReasonMostMembersSilent,
			Message: "most members, or all, fell silent together, so the hub assumes that it is cut off and lets none expire",
		}),
		when(forgotten, metav1.Condition{
			Type: clustersetv1alpha1.ConditionForgotten, Status: metav1.ConditionTrue, Reason: clustersetv1alpha1.ReasonSilent,
			Message: "the cluster has been silent for too long, so its records are deleted; it writes them again when it returns",
		}),
		when(wrong != "", metav1.Condition{
			Type: clustersetv1alpha1.ConditionValid, Status: metav1.ConditionFalse, Reason: clustersetv1alpha1.ReasonInvalid,
			Message: "the MemberCluster isn't used as it is: " + wrong,
		}),
	}
}

// when returns a condition without a status if something isn't so.
func when(so bool, c metav1.Condition) metav1.Condition {
	if so {
		return c
	}
	return metav1.Condition{Type: c.Type}
}

// setCondition sets a condition, or removes it if it has no status.
func setCondition(status *clustersetv1alpha1.MemberClusterStatus, c metav1.Condition) {
	if c.Status == "" {
		meta.RemoveStatusCondition(&status.Conditions, c.Type)
	} else {
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

// beatOf returns what identifies a Lease's renewal. Its holder may change without a heartbeat.
func beatOf(lease *coordinationv1.Lease) string {
	if t := lease.Spec.RenewTime; t != nil {
		return t.UTC().Format(time.RFC3339Nano)
	}
	return ""
}
