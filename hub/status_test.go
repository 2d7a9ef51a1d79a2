package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// stated updates a MemberCluster's status after a heartbeat of a member with a report, or none. It returns the Events about that, without those of
// the heartbeat itself.
func stated(mc *clustersetv1alpha1.MemberCluster, said *clustersetv1alpha1.MemberReportSpec) (events []news) {
	var report *clustersetv1alpha1.MemberReport
	if said != nil {
		report = &clustersetv1alpha1.MemberReport{Spec: *said}
	}
	mc.Name = "lyon"
	was := mc.Status.Conditions
	mc.Status = statusOf(mc, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: time.Unix(1, 0)}, factsOf(report, 0), time.Unix(2, 0))
	return slices.DeleteFunc(transitions(was, mc.Status.Conditions), func(n news) bool { return n.reason == clustersetv1alpha1.ReasonHeartbeatSeen })
}

// said returns the kinds and reasons of Events.
func said(events []news) string {
	all := []string{}
	for _, n := range events {
		all = append(all, n.kind+" "+n.reason)
	}
	return fmt.Sprint(all)
}

// A member reports its agent's version, the zones of its nodes, and its namespaces (C29 and C77 of docs/spec/control-plane.md). What it doesn't say
// stays, and what terminals would obey, or is no digest, isn't taken.
func TestWhatAMemberReports(t *testing.T) {
	digest := clustersetv1alpha1.NamespaceDigest([]string{"pay", "shop"})
	mc := &clustersetv1alpha1.MemberCluster{}
	for _, c := range []struct {
		said *clustersetv1alpha1.MemberReportSpec
		want string
	}{
		{nil, ` [] ""`},
		{&clustersetv1alpha1.MemberReportSpec{AgentVersion: "v1", Zones: []string{"b", "a"}, Namespaces: &digest}, `v1 [a b] "` + digest + `"`},
		{nil, `v1 [a b] "` + digest + `"`},
		{&clustersetv1alpha1.MemberReportSpec{}, `v1 [a b] "` + digest + `"`},
		{&clustersetv1alpha1.MemberReportSpec{Zones: []string{}, Namespaces: new("\x1b[2J")}, `v1 [] ""`},
	} {
		stated(mc, c.said)
		if got := fmt.Sprintf("%s %v %q", mc.Status.AgentVersion, mc.Status.Zones, mc.Status.Namespaces); got != c.want {
			t.Errorf("%+v: %s, want %s", c.said, got, c.want)
		}
	}
	if f := factsOf(&clustersetv1alpha1.MemberReport{Spec: clustersetv1alpha1.MemberReportSpec{AgentVersion: "v1\x1b[2J\n"}}, 0); f.version != "v1[2J" {
		t.Errorf("version %q", f.version)
	}
	mc.Status.Zones, mc.Spec.Zone = []string{"a"}, "by-hand"
	if got := mc.AllZones(); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("zones are %v: what people write goes first", got)
	}
}

// Rule C48 of docs/spec/control-plane.md: a condition, and an Event, name what can't be used.
func TestInvalidValuesAreNamed(t *testing.T) {
	mc := &clustersetv1alpha1.MemberCluster{}
	for _, c := range []struct {
		networks []string
		said     string // the condition's status and message, or nothing
		event    string
	}{
		{[]string{"10.1.0.0/16"}, "", "[]"},
		{
			[]string{"10.1.0.0/16", "10.2.0.1/16"},
			`False the MemberCluster isn't used as it is: spec.cidrs[1]: Invalid value: "10.2.0.1/16": must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48`,
			"[" + corev1.EventTypeWarning + " Invalid]",
		},
		{[]string{"10.1.0.0/16"}, "True all values of the MemberCluster are used", "[" + corev1.EventTypeNormal + " Valid]"},
	} {
		mc.Spec.CIDRs = c.networks
		events := said(stated(mc, nil))
		condition := ""
		if valid := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionValid); valid != nil {
			condition = string(valid.Status) + " " + valid.Message
		}
		if condition != c.said || events != c.event {
			t.Errorf("%v: %q and Events %s, want %q and %s", c.networks, condition, events, c.said, c.event)
		}
	}
	for range 64 {
		mc.Spec.CIDRs = append(mc.Spec.CIDRs, strings.Repeat("x", 100))
	}
	for _, c := range conditions(mc, liveness.Decision{}, facts{}) {
		if len(c.Message) > 1500 {
			t.Errorf("a message of %d bytes", len(c.Message))
		}
	}
}
