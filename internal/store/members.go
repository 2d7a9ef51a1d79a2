package store

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// memberClusters are the hub's MemberClusters. The store's mutex guards them.
type memberClusters struct {
	byName map[string]*clustersetv1alpha1.MemberCluster
	listed bool
	feed   *feed
	stop   context.CancelFunc
}

// readMembers reads the MemberClusters, or reads them again. What is known stays meanwhile. The caller has locked s.
func (s *Store) readMembers() {
	if s.ctx == nil || s.ctx.Err() != nil {
		return
	}
	if s.members.stop != nil {
		s.members.stop()
	}
	s.members = &memberClusters{byName: s.members.byName, listed: s.members.listed}
	s.members.feed = newFeed(s.hub, s.link, members, "", "", memberSink{s, s.members})
	var ctx context.Context
	ctx, s.members.stop = context.WithCancel(s.ctx)
	s.running.Go(func() { s.members.feed.run(ctx) })
}

// memberSink is where a feed's MemberClusters are kept.
type memberSink struct {
	store *Store
	of    *memberClusters
}

// begin implements sink.
func (m memberSink) begin() {}

// compact implements sink.
func (m memberSink) compact(o client.Object, _ bool) any {
	o.SetManagedFields(nil)
	return o.(*clustersetv1alpha1.MemberCluster)
}

// put implements sink.
func (m memberSink) put(i *item) { m.set(i.name, i.value) }

// remove implements sink.
func (m memberSink) remove(i *item) { m.set(i.name, nil) }

// set sets or removes, if it is nil, one.
func (m memberSink) set(name string, value any) {
	m.store.update(func() {
		if m.store.members != m.of {
			return
		}
		if value == nil {
			delete(m.of.byName, name)
		} else {
			m.of.byName[name] = value.(*clustersetv1alpha1.MemberCluster)
		}
		m.store.untold.members = append(m.store.untold.members, name)
	})
}

// replace implements sink.
func (m memberSink) replace(all []any) {
	m.store.update(func() {
		if m.store.members != m.of {
			return
		}
		was := m.of.byName
		m.of.byName, m.of.listed = map[string]*clustersetv1alpha1.MemberCluster{}, true
		for _, o := range all {
			name, is := o.(*item).name, o.(*item).value.(*clustersetv1alpha1.MemberCluster)
			if known := was[name]; known != nil && equality.Semantic.DeepEqual(known, is) {
				is = known
			} else {
				m.store.untold.members = append(m.store.untold.members, name)
			}
			m.of.byName[name] = is
		}
		for name := range was {
			if m.of.byName[name] == nil {
				m.store.untold.members = append(m.store.untold.members, name)
			}
		}
	})
}

// Member returns a MemberCluster of the hub, nil if there is none.
func (s *Store) Member(name string) *clustersetv1alpha1.MemberCluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.members.byName[name]
}

// Members returns the MemberClusters of the hub by name.
func (s *Store) Members() []*clustersetv1alpha1.MemberCluster {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*clustersetv1alpha1.MemberCluster, 0, len(s.members.byName))
	for _, m := range s.members.byName {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *clustersetv1alpha1.MemberCluster) int { return strings.Compare(a.Name, b.Name) })
	return all
}
