package store

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
)

// Part is what one cluster's records say of a service.
type Part struct {
	Cluster   string
	Export    *door.Export      // nil: there is no ExportedService
	Endpoints []*door.Endpoints // by name
	// Capped says that the service is beyond those that may be imported from the cluster.
	Capped bool
}

// Service returns the parts of a service, by cluster.
func (s *Store) Service(key types.NamespacedName) []Part {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var parts []Part
	for _, name := range s.index[key] {
		c := s.clusters[name]
		of := c.services[key]
		parts = append(parts, Part{name, of.export, slices.Clone(of.endpoints), c.capped(key)})
	}
	return parts
}

// Keys returns the services that a cluster has records of, in no order.
func (s *Store) Keys(cluster string) []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.clusters[cluster]; c != nil {
		return slices.Collect(maps.Keys(c.services))
	}
	return nil
}

// All returns the services that any cluster has records of, in no order.
func (s *Store) All() []types.NamespacedName {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Keys(s.index))
}

// Services returns how many services a cluster exports, those beyond MaxServices among them.
func (s *Store) Services(cluster string) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.clusters[cluster]; c != nil {
		return len(c.order)
	}
	return 0
}

// Own returns this cluster's own records of a service, as they are on the hub: the ExportedService, nil if there is none, and the
// ExportedEndpoints by name.
func (s *Store) Own(key types.NamespacedName) (export *clustersetv1alpha1.ExportedService, all []*clustersetv1alpha1.ExportedEndpoints) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.clusters[s.options.Cluster]
	if c == nil {
		return nil, nil
	}
	export, _ = c.byName[services][api.ExportedServiceName(key.Namespace, key.Name)].whole.(*clustersetv1alpha1.ExportedService)
	if of := c.services[key]; of != nil {
		for _, e := range of.endpoints {
			all = append(all, c.byName[endpoints][e.Name].whole.(*clustersetv1alpha1.ExportedEndpoints))
		}
	}
	return export, all
}

// OwnRecords returns all of this cluster's own records, as they are on the hub, in no order.
func (s *Store) OwnRecords() (exports []*clustersetv1alpha1.ExportedService, all []*clustersetv1alpha1.ExportedEndpoints) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := s.clusters[s.options.Cluster]
	if c == nil {
		return nil, nil
	}
	for _, r := range c.byName[services] {
		exports = append(exports, r.whole.(*clustersetv1alpha1.ExportedService))
	}
	for _, r := range c.byName[endpoints] {
		all = append(all, r.whole.(*clustersetv1alpha1.ExportedEndpoints))
	}
	return exports, all
}

// Export returns a cluster's export of a service, nil if there is none.
func (s *Store) Export(cluster string, key types.NamespacedName) *door.Export {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if c := s.clusters[cluster]; c != nil && c.services[key] != nil {
		return c.services[key].export
	}
	return nil
}

// HasSynced reports whether the MemberClusters and the records have been read once: this cluster's own, and those of the others, or these have been
// waited for.
func (s *Store) HasSynced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.synced.IsZero() && !time.Now().Before(s.synced)
}

// Read reports whether the records of a cluster have been read as they are selected now, and since the last Relist. That one is missing otherwise
// says nothing.
func (s *Store) Read(cluster string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.read(cluster)
}

// Watched reports whether the MemberClusters and this cluster's own records are being watched. A watch that has just ended and is about to be opened
// again counts.
func (s *Store) Watched() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	of := s.feedsOf(s.options.Cluster)
	lost := func(f *feed) bool { return !f.lost.IsZero() && time.Since(f.lost) > closedFor }
	return len(of) > 0 && !slices.ContainsFunc(append(of, s.feeds[scope{members, ""}]), lost)
}
