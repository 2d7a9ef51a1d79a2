package hub

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// What a clone reports in the Lease becomes a condition and an Event: one when the clone appears, one when it is gone.
func TestClonedClusterIsSaid(t *testing.T) {
	mc := &clustersetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "lyon"}}
	for _, c := range []struct{ yields, kind, reason string }{
		{"", "", ""},
		{"2026-01-01T00:00:00Z", corev1.EventTypeWarning, clustersetv1alpha1.ReasonCloneYields},
		{"2026-01-01T00:01:00Z", "", ""},
		{"", corev1.EventTypeNormal, clustersetv1alpha1.ReasonCloneGone},
		{"", "", ""},
	} {
		lease := &coordinationv1.Lease{}
		if c.yields != "" {
			lease.Annotations = map[string]string{api.AnnotationYields: c.yields}
		}
		was := mc.Status
		mc.Status = statusOf(mc, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: time.Unix(1, 0)}, factsOf(lease, 0), time.Unix(2, 0))
		var got news
		for _, n := range transitions(was.Conditions, mc.Status.Conditions) {
			if n.reason != clustersetv1alpha1.ReasonHeartbeatSeen {
				got = n
			}
		}
		if got.kind != c.kind || got.reason != c.reason {
			t.Errorf("%q: %+v", c.yields, got)
		}
	}
}
