package merge_test

import (
	"testing"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

// Rules C18 and C19 of docs/spec/control-plane.md.
func TestVisible(t *testing.T) {
	in := map[string][]string{"a": {"x"}, "b": {"x", "y"}, "c": {"y"}, "d": nil, "e": nil}
	member := func(cluster string) *clustersetv1alpha1.MemberCluster {
		of, known := in[cluster]
		if !known {
			return nil
		}
		return &clustersetv1alpha1.MemberCluster{Spec: clustersetv1alpha1.MemberClusterSpec{Communities: of}}
	}
	for _, c := range []struct {
		viewer, cluster string
		to              []string
		want            bool
	}{
		{"a", "b", nil, true},
		{"a", "c", nil, false},
		{"a", "d", nil, false},
		{"d", "e", nil, true},
		{"a", "lost", nil, true},
		{"lost", "a", nil, true},
		{"a", "b", []string{"a"}, true},
		{"a", "b", []string{"c"}, false},
		{"b", "a", []string{"y"}, true},
		{"a", "b", []string{"y"}, false},
		{"a", "c", []string{"a"}, false}, // export-to narrows visibility, and never widens it
		{"a", "a", []string{"b"}, true},
		{"d", "e", []string{"default"}, true},
	} {
		if got := merge.Visible(c.viewer, member)(c.cluster, c.to); got != c.want {
			t.Errorf("%s sees what %s exports to %v: %v", c.viewer, c.cluster, c.to, got)
		}
	}
}
