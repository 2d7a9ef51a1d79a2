package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// stated updates a MemberCluster's status after a heartbeat whose Lease has an annotation, unless the text is "-". It returns the Events
// about that, without those of the heartbeat itself.
func stated(mc *clustersetv1alpha1.MemberCluster, annotation, text string) (events []news) {
	lease := &coordinationv1.Lease{}
	if text != "-" {
		lease.Annotations = map[string]string{annotation: text}
	}
	mc.Name = "lyon"
	was := mc.Status.Conditions
	mc.Status = statusOf(mc, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: time.Unix(1, 0)}, factsOf(lease, 0), time.Unix(2, 0))
	return slices.DeleteFunc(transitions(was, mc.Status.Conditions), func(n news) bool { return n.reason == clustersetv1alpha1.ReasonHeartbeatSeen })
}

// What a clone reports in the Lease becomes a condition and an Event: one when the clone appears, one when it is gone.
func TestClonedClusterIsSaid(t *testing.T) {
	mc := &clustersetv1alpha1.MemberCluster{}
	for _, c := range []struct{ yields, want string }{
		{"", "[]"},
		{"2026-01-01T00:00:00Z", "[Warning CloneYields]"},
		{"2026-01-01T00:01:00Z", "[]"},
		{"", "[Normal CloneGone]"},
		{"", "[]"},
	} {
		if got := said(stated(mc, api.AnnotationYields, c.yields)); got != c.want {
			t.Errorf("%q: %s, want %s", c.yields, got, c.want)
		}
	}
}

// said returns the kinds and reasons of Events.
func said(events []news) string {
	all := []string{}
	for _, n := range events {
		all = append(all, n.kind+" "+n.reason)
	}
	return fmt.Sprint(all)
}

// A member reports the zones of its nodes. Invalid names are dropped, and a Lease without the annotation changes nothing.
func TestZonesOfNodes(t *testing.T) {
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("z%02d", i))
	}
	mc := &clustersetv1alpha1.MemberCluster{}
	for _, c := range []struct {
		stated string
		want   []string
	}{
		{"", nil},
		{"b,a,b", []string{"a", "b"}},
		{"-", []string{"a", "b"}},
		{"a, c,\x1b[2J,a b," + strings.Repeat("x", 64), []string{"a"}},
		{strings.Join(many, ","), many[:64]},
		{"", nil},
	} {
		stated(mc, api.AnnotationZones, c.stated)
		if !slices.Equal(mc.Status.Zones, c.want) || !slices.Equal(mc.AllZones(), c.want) {
			t.Errorf("%q: zones %v, want %v", c.stated, mc.Status.Zones, c.want)
		}
	}
	mc.Status.Zones, mc.Spec.Zone = []string{"a"}, "by-hand"
	if got := mc.AllZones(); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("zones are %v: what people write goes first", got)
	}
}

// A member reports its namespaces, and nothing that isn't a digest of them (C77 of docs/spec/control-plane.md).
func TestNamespacesOfAMember(t *testing.T) {
	digest := clustersetv1alpha1.NamespaceDigest([]string{"pay", "shop"})
	mc := &clustersetv1alpha1.MemberCluster{}
	for _, c := range []struct{ stated, want string }{{digest, digest}, {"-", digest}, {"\x1b[2J", ""}, {digest, digest}, {"", ""}} {
		stated(mc, api.AnnotationNamespaces, c.stated)
		if mc.Status.Namespaces != c.want {
			t.Errorf("%q: %q, want %q", c.stated, mc.Status.Namespaces, c.want)
		}
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
		events := said(stated(mc, "", "-"))
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
