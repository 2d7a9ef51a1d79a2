package hub

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// facts are what a status depends on besides the decision.
type facts struct {
	version  string // of the member's agent, empty if unknown
	exported int32  // how many services the member has on the hub
	full     bool   // whether that is the limit
	// zones of the member's nodes as the member states them, nil if it doesn't.
	zones []string
	// namespaces is the digest of its namespaces, nil if it doesn't state one.
	namespaces *string
}

// factsOf returns the facts by a member's report, which is nil if there is none. The schema bounds it, but the member isn't trusted with terminals.
func factsOf(report *clustersetv1alpha1.MemberReport, exported int) facts {
	f := facts{exported: int32(min(exported, math.MaxInt32))}
	if report == nil {
		return f
	}
	said := &report.Spec
	f.version = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, said.AgentVersion)
	f.zones = slices.Clone(said.Zones) // empty isn't nil: that there are none is known
	slices.Sort(f.zones)
	if f.namespaces = said.Namespaces; f.namespaces != nil && clustersetv1alpha1.ParseNamespaces(*f.namespaces) == nil {
		f.namespaces = new(string)
	}
	return f
}

// statusOf returns the wanted status of a MemberCluster. It differs from the current one only if something happened that is
// worth waking every member for, because all watch it: a heartbeat isn't, nor is an export.
func statusOf(mc *clustersetv1alpha1.MemberCluster, d liveness.Decision, f facts, now time.Time) clustersetv1alpha1.MemberClusterStatus {
	status := *mc.Status.DeepCopy()
	status.Phase = d.Phase

	changed := mc.Status.Phase != d.Phase || f.version != "" && f.version != mc.Status.AgentVersion
	switch silent := d.Phase == clustersetv1alpha1.MemberSuspect || d.Phase == clustersetv1alpha1.MemberExpired; {
	case !silent:
		status.LastHeartbeatTime = nil // the Lease has the time
	case mc.Status.Phase != d.Phase && !d.Heard.IsZero():
		status.LastHeartbeatTime = &metav1.Time{Time: d.Heard}
	}
	if changed && f.version != "" {
		status.AgentVersion = f.version
	}
	if changed || status.ExportedServices == nil {
		status.ExportedServices = &f.exported
	}
	if f.zones != nil {
		status.Zones = f.zones
	}
	if f.namespaces != nil {
		status.Namespaces = *f.namespaces
	}
	if d.Phase == clustersetv1alpha1.MemberReady {
		meta.RemoveStatusCondition(&status.Conditions, clustersetv1alpha1.ConditionForgotten)
	}
	for _, c := range conditions(mc, d, f) {
		c.ObservedGeneration = mc.Generation
		c.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// conditions returns a MemberCluster's conditions. Their messages contain no time except that of the last heartbeat: one that
// counted seconds would be rewritten at every look.
func conditions(mc *clustersetv1alpha1.MemberCluster, d liveness.Decision, f facts) []metav1.Condition {
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
	all := []metav1.Condition{ready}
	if d.Forget { // until it is heard, also by a process that hasn't listened for long enough yet
		all = append(all, metav1.Condition{
			Type: clustersetv1alpha1.ConditionForgotten, Status: metav1.ConditionTrue, Reason: clustersetv1alpha1.ReasonSilent,
			Message: "the cluster has been silent for too long, so its records are deleted; it writes them again when it returns",
		})
	}
	errs := mc.Validate()
	for _, c := range []struct {
		kind            string
		is              bool
		reason, message string // while it is bad
		over, overWords string // once it no longer is
	}{
		{
			clustersetv1alpha1.ConditionExpiryPaused, d.Paused,
			clustersetv1alpha1.ReasonMostMembersSilent, "most members, or all, fell silent together, so the hub assumes that it is cut off and lets none expire",
			clustersetv1alpha1.ReasonMostMembersHeard, "the hub hears from most members",
		},
		{
			clustersetv1alpha1.ConditionLimited, f.full, clustersetv1alpha1.ReasonTooManyServices,
			"the cluster has as many services on the hub as it may (--max-services), and more are refused; check whether its token was stolen, or raise the limit",
			clustersetv1alpha1.ReasonFewServices, "the cluster has fewer services on the hub than it may",
		},
		{
			clustersetv1alpha1.ConditionValid, len(errs) > 0,
			clustersetv1alpha1.ReasonInvalid, "the MemberCluster isn't used as it is: " + several(errs),
			clustersetv1alpha1.ReasonValid, "all values of the MemberCluster are used",
		},
	} {
		switch {
		case c.is:
			all = append(all, metav1.Condition{Type: c.kind, Status: bad[c.kind], Reason: c.reason, Message: c.message})
		case meta.FindStatusCondition(mc.Status.Conditions, c.kind) != nil:
			all = append(all, metav1.Condition{Type: c.kind, Status: opposite[bad[c.kind]], Reason: c.over, Message: c.overWords})
		}
	}
	return all
}

// bad has the status of each condition that says that something is wrong.
var bad = map[string]metav1.ConditionStatus{
	clustersetv1alpha1.ConditionReady: metav1.ConditionFalse, clustersetv1alpha1.ConditionValid: metav1.ConditionFalse,
	clustersetv1alpha1.ConditionExpiryPaused: metav1.ConditionTrue, clustersetv1alpha1.ConditionLimited: metav1.ConditionTrue,
	clustersetv1alpha1.ConditionForgotten: metav1.ConditionTrue,
}

var opposite = map[metav1.ConditionStatus]metav1.ConditionStatus{metav1.ConditionTrue: metav1.ConditionFalse, metav1.ConditionFalse: metav1.ConditionTrue}

// several names the first few errors.
func several(errs field.ErrorList) string {
	const most = 5
	var all []string
	for _, err := range errs[:min(len(errs), most)] {
		all = append(all, err.Error())
	}
	if more := len(errs) - most; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// news is an Event about a MemberCluster.
type news struct{ kind, reason, message string }

// transitions returns the Events for a new status: conditions that changed, and new conditions unless they only say that
// nothing is wrong or nothing is known.
func transitions(was, now []metav1.Condition) []news {
	var all []news
	for _, c := range now {
		old := meta.FindStatusCondition(was, c.Type)
		if old != nil && old.Status == c.Status && old.Reason == c.Reason || c.Status == metav1.ConditionUnknown {
			continue
		}
		kind := corev1.EventTypeNormal
		if c.Status == bad[c.Type] {
			kind = corev1.EventTypeWarning
		}
		all = append(all, news{kind, c.Reason, c.Message})
	}
	return all
}

// beatOf returns what identifies a Lease's renewal. Its holder may change without a heartbeat.
func beatOf(lease *coordinationv1.Lease) string {
	if t := lease.Spec.RenewTime; t != nil {
		return t.UTC().Format(time.RFC3339Nano)
	}
	return ""
}

// worse reports whether phase b is worse than a.
func worse(a, b clustersetv1alpha1.MemberClusterPhase) bool {
	rank := map[clustersetv1alpha1.MemberClusterPhase]int{clustersetv1alpha1.MemberSuspect: 1, clustersetv1alpha1.MemberExpired: 2}
	return rank[b] > rank[a]
}
