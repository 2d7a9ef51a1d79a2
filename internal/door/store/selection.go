package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
)

// patience is how long a start waits for other clusters' records.
const patience = 10 * time.Second

// scope is what a feed reads: a kind in one namespace on the hub, or in all ("").
type scope struct {
	kind      kind
	namespace string
}

// follow makes the feeds those of the clusters that share a community with this one; of all clusters, if none is in a community. Records of those
// that don't any more go at once; the others stay until they have been read again. The caller has locked s.
func (s *Store) follow() {
	if s.ctx == nil || s.ctx.Err() != nil {
		return
	}
	wanted := s.wanted()
	for at := range s.feeds {
		if !wanted[at] {
			s.end(at)
		}
	}
	for at := range wanted {
		if s.feeds[at] == nil {
			s.begin(at)
		}
	}
	for name, c := range s.clusters {
		if s.peers != nil && !slices.Contains(s.peers, name) {
			delete(s.clusters, name)
			s.setOver(name, c, false)
			for key := range c.services {
				s.index.remove(key, name)
				s.changed(name, key)
			}
		}
	}
}

// wanted chooses the peers by the MemberClusters, and returns what is to be read.
func (s *Store) wanted() map[scope]bool {
	all := map[scope]bool{{members, ""}: true}
	if s.members == nil {
		return all
	}
	var list []clustersetv1alpha1.MemberCluster
	for _, m := range s.members {
		list = append(list, *m)
	}
	s.peers = communities.Read(list, s.options.Cluster)
	namespaces := []string{""}
	if s.peers != nil {
		namespaces = nil
		for _, peer := range s.peers {
			namespaces = append(namespaces, api.MemberNamespace(peer))
		}
	}
	for _, namespace := range namespaces {
		all[scope{services, namespace}], all[scope{endpoints, namespace}] = true, true
	}
	return all
}

// begin begins a feed. The caller has locked s.
func (s *Store) begin(at scope) {
	f := &feed{scope: at, store: s, lost: time.Now()}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(s.ctx)
	s.feeds[at] = f
	s.running.Go(func() { f.run(ctx) })
}

// end ends a feed. What it has read stays. The caller has locked s.
func (s *Store) end(at scope) {
	s.feeds[at].ended = true
	s.feeds[at].stop()
	delete(s.feeds, at)
}

// feedsOf returns the feeds that a cluster's records are read by, none if they aren't. The caller has locked s.
func (s *Store) feedsOf(cluster string) (all []*feed) {
	namespace := ""
	if s.peers != nil {
		namespace = api.MemberNamespace(cluster)
	}
	for _, k := range []kind{services, endpoints} {
		if f := s.feeds[scope{k, namespace}]; f != nil {
			all = append(all, f)
		}
	}
	return all
}

// read reports whether the records of a cluster have been read as they are selected now. The caller has locked s.
func (s *Store) read(cluster string) bool {
	feeds := s.feedsOf(cluster)
	return len(feeds) > 0 && !slices.ContainsFunc(feeds, func(f *feed) bool { return !f.listed })
}

// noteRead notes from when on what is here counts as complete: when everything has been read, or some time after this cluster's own records have.
// The caller has locked s.
func (s *Store) noteRead() {
	if !s.read(s.options.Cluster) {
		return
	}
	if s.synced.IsZero() {
		s.synced = time.Now().Add(patience)
	}
	for _, f := range s.feeds {
		if !f.listed {
			return
		}
	}
	if now := time.Now(); now.Before(s.synced) {
		s.synced = now
	}
}

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
