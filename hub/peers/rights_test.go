package peers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/hub/access"
)

func member(communities ...string) *clustersetv1alpha1.MemberCluster {
	return &clustersetv1alpha1.MemberCluster{
		Spec:   clustersetv1alpha1.MemberClusterSpec{Communities: communities},
		Status: clustersetv1alpha1.MemberClusterStatus{Phase: clustersetv1alpha1.MemberReady},
	}
}

func bound(s *state) string {
	var all []string
	bindings := s.bindings()
	for _, namespace := range slices.Sorted(maps.Keys(bindings)) {
		line := strings.TrimPrefix(namespace, api.MemberNamespacePrefix) + ":"
		for _, subject := range bindings[namespace].Subjects {
			line += " " + strings.TrimPrefix(subject.Namespace, api.MemberNamespacePrefix)
		}
		all = append(all, line)
	}
	return strings.Join(all, ", ")
}

func TestBindings(t *testing.T) {
	accounts := func(names ...string) map[string]bool {
		all := map[string]bool{}
		for _, name := range names {
			all[name] = true
		}
		return all
	}
	for _, c := range []struct {
		name     string
		members  map[string]*clustersetv1alpha1.MemberCluster
		accounts map[string]bool
		confined bool
		want     string
	}{
		{"no communities", map[string]*clustersetv1alpha1.MemberCluster{"a": member(), "b": member("default")}, accounts("a", "b"), false, ""},
		{"some", map[string]*clustersetv1alpha1.MemberCluster{"a": member("x"), "b": member("x", "y"), "c": member("y"), "d": member()}, accounts("a", "b", "c", "d"), false, "a: a b, b: a b c, c: b c, d: d"},
		{"a member without an account of ours", map[string]*clustersetv1alpha1.MemberCluster{"a": member("x"), "b": member("x")}, accounts("a"), false, "a: a, b: a"},
		{"an account without a MemberCluster", map[string]*clustersetv1alpha1.MemberCluster{"a": member("x")}, accounts("a", "lost"), true, "a: a"},
		// The hub has lost the MemberCluster that named a community, or has lost all MemberClusters. No member gains a right.
		{"the last in a community is lost", map[string]*clustersetv1alpha1.MemberCluster{"a": member(), "b": member()}, accounts("a", "b", "lost"), true, "a: a b, b: a b"},
		{"all are lost", nil, accounts("a", "b"), true, ""},
		{"the last in a community has left", map[string]*clustersetv1alpha1.MemberCluster{"a": member(), "b": member()}, accounts("a", "b"), true, ""},
	} {
		s := &state{members: c.members, accounts: c.accounts, reader: access.ClusterRole()}
		access.Confine(s.reader, c.confined)
		if got := bound(s); got != c.want {
			t.Errorf("%s: bound %q, want %q", c.name, got, c.want)
		}
		if lost := strings.Contains(c.name, "lost"); lost && !s.on() {
			t.Errorf("%s: all may read all", c.name)
		}
	}
}
