package index

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Restore publishes an earlier state, last known to be right at the given time and marked as stale, until Publish replaces it as a whole. It
// doesn't affect the changes collected for Publish.
func (x *Index) Restore(objects []Object, known time.Time) {
	opts := x.opts
	opts.Serials = nil // nobody sees these
	past := New(opts)
	past.Put(objects...)
	past.Publish()
	stale := *past.Snapshot()
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.synced {
		stale.known, stale.serial = known, x.nextSerial(true)
		x.snapshot.Store(&stale)
	}
}

// Withdraw removes what Restore published, unless Publish has replaced it.
func (x *Index) Withdraw() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.synced {
		x.snapshot.Store(nil)
	}
}

// Objects returns what the Index holds, or what Restore published, but verdicts, whose age is lost in a file: the clusters by name, then the
// objects of each service, the services sorted by key.
func (x *Index) Objects() []Object {
	x.mu.Lock()
	tree, clusters := x.services, slices.Collect(maps.Values(x.clusters))
	if s := x.snapshot.Load(); s != nil && s.Stale() {
		tree, clusters = s.services, slices.Collect(maps.Values(s.ranker.clusters))
	}
	x.mu.Unlock()
	services := make([]*Service, 0, tree.size)
	tree.root.all(func(s *Service) bool {
		services = append(services, s)
		return true
	})
	slices.SortFunc(clusters, func(a, b *Cluster) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(services, func(a, b *Service) int { return strings.Compare(string(a.key), string(b.key)) })
	all := make([]Object, 0, len(clusters)+4*len(services))
	for _, c := range clusters {
		all = append(all, c)
	}
	for _, s := range services {
		if s.imported != nil {
			all = append(all, s.imported)
		}
		for _, slice := range slices.SortedFunc(slices.Values(s.slices), func(a, b *EndpointSlice) int { return strings.Compare(a.Name, b.Name) }) {
			all = append(all, slice)
		}
		if s.global != nil {
			all = append(all, s.global)
		}
	}
	return all
}
