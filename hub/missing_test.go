package hub

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/liveness"
)

// A member reports its namespaces, and nothing that isn't a digest of them (C77 of docs/spec/control-plane.md).
func TestNamespacesOfAMember(t *testing.T) {
	digest := clustersetv1alpha1.NamespaceDigest([]string{"pay", "shop"})
	mc := &clustersetv1alpha1.MemberCluster{}
	for _, c := range []struct{ stated, want string }{
		{digest, digest},
		{"-", digest}, // means: no annotation
		{"\x1b[2J", ""},
		{digest, digest},
		{"", ""},
	} {
		lease := &coordinationv1.Lease{}
		if c.stated != "-" {
			lease.Annotations = map[string]string{api.AnnotationNamespaces: c.stated}
		}
		mc.Status = statusOf(mc, liveness.Decision{Phase: clustersetv1alpha1.MemberReady, Heard: time.Unix(1, 0)}, factsOf(lease, 0), time.Unix(2, 0))
		if mc.Status.Namespaces != c.want {
			t.Errorf("%q: %q, want %q", c.stated, mc.Status.Namespaces, c.want)
		}
	}
}
