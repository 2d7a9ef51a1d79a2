package store

import (
	"slices"
	"strings"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// readMembers begins a reading of the MemberClusters. The last one goes on until it has been read. The caller has locked s.
func (s *Store) readMembers() {
	if s.ctx != nil && s.ctx.Err() == nil {
		s.nextMembers.end()
		s.nextMembers = s.begin("", members)
	}
}

// showMembers makes a reading of the MemberClusters that has been read take its place. The caller has locked s.
func (s *Store) showMembers() {
	next := s.nextMembers
	if next == nil || !next.done() {
		return
	}
	was := map[string]*cluster{}
	if s.members != nil {
		was = s.members.clusters
		s.members.end()
	}
	s.members, s.nextMembers = next, nil
	s.differ(was, next.clusters)
}

// Member returns a MemberCluster of the hub, nil if there is none.
func (s *Store) Member(name string) *clustersetv1alpha1.MemberCluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.known(members, name); c != nil {
		m, _ := c.byName[members][name].whole.(*clustersetv1alpha1.MemberCluster)
		return m
	}
	return nil
}

// Members returns the MemberClusters of the hub by name.
func (s *Store) Members() (all []*clustersetv1alpha1.MemberCluster) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.members == nil {
		return nil
	}
	for _, c := range s.members.clusters {
		for _, m := range c.byName[members] {
			all = append(all, m.whole.(*clustersetv1alpha1.MemberCluster))
		}
	}
	slices.SortFunc(all, func(a, b *clustersetv1alpha1.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// MembersRead reports whether the MemberClusters have been read.
func (s *Store) MembersRead() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.members != nil
}
