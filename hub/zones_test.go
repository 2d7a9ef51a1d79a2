package hub

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

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
		{"-", []string{"a", "b"}}, // means: no annotation
		{"a, c,\x1b[2J,a b," + strings.Repeat("x", 64), []string{"a"}},
		{strings.Join(many, ","), many[:64]},
		{"", nil},
	} {
		lease := &coordinationv1.Lease{}
		if c.stated != "-" {
			lease.Annotations = map[string]string{api.AnnotationZones: c.stated}
		}
		mc.Status = statusOf(mc, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: time.Unix(1, 0)}, factsOf(lease, 0), time.Unix(2, 0))
		if !slices.Equal(mc.Status.Zones, c.want) || !slices.Equal(mc.AllZones(), c.want) {
			t.Errorf("%q: zones %v, want %v", c.stated, mc.Status.Zones, c.want)
		}
	}
	mc.Status.Zones, mc.Spec.Zone = []string{"a"}, "by-hand"
	if got := mc.AllZones(); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("zones are %v: what people write goes first", got)
	}
}
