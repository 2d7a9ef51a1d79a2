package hub

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// Rule C48 of docs/spec/control-plane.md: a condition, and an Event, name what can't be used.
func TestInvalidValuesAreNamed(t *testing.T) {
	mc := &clustersetv1alpha1.MemberCluster{}
	mc.Name = "lyon"
	for _, c := range []struct {
		networks []string
		said     string // the condition's status and message, or nothing
		event    string
	}{
		{[]string{"10.1.0.0/16"}, "", ""},
		{
			[]string{"10.1.0.0/16", "10.2.0.1/16"},
			`False the MemberCluster isn't used as it is: spec.cidrs[1]: Invalid value: "10.2.0.1/16": must be a network without host bits, such as 10.1.0.0/16 or fd00:1::/48`,
			"Warning Invalid",
		},
		{[]string{"10.1.0.0/16"}, "True all values of the MemberCluster are used", "Normal Valid"},
	} {
		was := mc.Status
		mc.Spec.CIDRs = c.networks
		mc.Status = statusOf(mc, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: time.Unix(1, 0)}, facts{}, time.Unix(2, 0))
		said, events := "", ""
		if valid := meta.FindStatusCondition(mc.Status.Conditions, clustersetv1alpha1.ConditionValid); valid != nil {
			said = string(valid.Status) + " " + valid.Message
		}
		for _, n := range transitions(was.Conditions, mc.Status.Conditions) {
			if n.reason == clustersetv1alpha1.ReasonInvalid || n.reason == clustersetv1alpha1.ReasonValid {
				events += n.kind + " " + n.reason
			}
		}
		if said != c.said || events != c.event {
			t.Errorf("%v: %q and Event %q, want %q and %q", c.networks, said, events, c.said, c.event)
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
