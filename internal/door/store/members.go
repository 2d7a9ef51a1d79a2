package store

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// setMember stores a MemberCluster, or removes it. The caller has locked s.
func (s *Store) setMember(name string, is *clustersetv1alpha1.MemberCluster) {
	was := s.members[name]
	switch {
	case equality.Semantic.DeepEqual(was, is):
		return
	case is == nil:
		delete(s.members, name)
	default:
		s.members[name] = is
	}
	s.note(change{cluster: name})
}

// Member returns a MemberCluster of the hub, nil if there is none.
func (s *Store) Member(name string) *clustersetv1alpha1.MemberCluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.members[name]
}

// Members returns the MemberClusters of the hub by name.
func (s *Store) Members() []*clustersetv1alpha1.MemberCluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.members), func(a, b *clustersetv1alpha1.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
}
