package cli

import (
	"strings"
	"testing"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/objects"
)

// A drain warns unless another cluster is in the set, heard and not drained itself. A cluster that has left can't be drained.
func TestWhoIsDrainedAndWhoServes(t *testing.T) {
	left := memberIn("shanghai", clustersetv1alpha1.MemberReady, false)
	left.SetLeft(time.Now())
	for _, c := range []struct {
		name   string
		other  *clustersetv1alpha1.MemberCluster
		serves bool
	}{
		{"ready", memberIn("shanghai", clustersetv1alpha1.MemberReady, false), true},
		{"drained", memberIn("shanghai", clustersetv1alpha1.MemberReady, true), false},
		{"silent", memberIn("shanghai", clustersetv1alpha1.MemberSuspect, false), false},
		{"never heard", memberIn("shanghai", "", false), false},
		{"left", left, false},
	} {
		all := []clustersetv1alpha1.MemberCluster{*memberIn("beijing", clustersetv1alpha1.MemberReady, false), *c.other}
		if got := othersServe(all, "beijing"); got != c.serves {
			t.Errorf("%s: another cluster serves: %v", c.name, got)
		}
		mc, err := present(&objects.Cluster{Server: "https://hub"}, "shanghai", all)
		if c.other.Left() && (err == nil || !strings.Contains(err.Error(), "there is no cluster shanghai; there are beijing")) || !c.other.Left() && (err != nil || mc.Name != "shanghai") {
			t.Errorf("%s: %v, %v", c.name, mc, err)
		}
	}
}
