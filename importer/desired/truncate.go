package desired

import (
	"cmp"
	"slices"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	fabedgev1alpha1 "github.com/clusterset/clusterset/api/fabedge/v1alpha1"
)

// share is a cluster's part of a GlobalService.
type share struct {
	cluster *cluster
	// records are the sources of its endpoints. A ClusterIP has none; without then means that no ready endpoint is behind it.
	records []*record
	without bool

	of, size int         // all its endpoints, and about how many bytes they take
	n        int         // how many fit
	had, at  int         // how many the last GlobalService has, and the index of the first
	sizes    map[int]int // sizes of parts, by the number of endpoints

	all []fabedgev1alpha1.Endpoint // nil: not made in this computation
}

// maxSizes limits share.sizes: as many as the tries that it takes until everything fits.
const maxSizes = 8

// settled reports whether the last GlobalService already has the wanted part of the cluster.
func (s *share) settled() bool { return s.had == s.n && s.had >= 0 }

// shares returns each cluster's share, in the clusters' order.
func (w *work) shares() []share {
	m := w.memory
	now := make([]share, len(m.clusters))
	records := w.records
	for i, c := range m.clusters {
		s := &now[i]
		s.cluster = c
		n := 0
		for n < len(records) && records[n].cluster == c {
			n++
		}
		if w.resolved.Type == mcsv1beta1.Headless || c.apart {
			s.records = records[:n:n]
		} else {
			s.without = w.without(c)
		}
		records = records[n:]
		at, ok := slices.BinarySearchFunc(m.shares, c.name, func(s share, name string) int { return cmp.Compare(s.cluster.name, name) })
		if ok && m.shares[at].cluster == c && m.shares[at].without == s.without && slices.Equal(m.shares[at].records, s.records) {
			now[i] = m.shares[at]
			continue
		}
		s.had, s.all = -1, w.run(s)
		s.of, s.size = len(s.all), sizeOfAll(s.all)
	}
	return now
}

// fit decides how many endpoints of each cluster are kept, so that there are at most limit, and they take no more than about
// maxGlobalServiceBytes. The clusters share the room fairly: none gets less than another unless it has no more endpoints, so a
// cluster with ten thousand endpoints can't push out one with three. A cluster's ready endpoints are kept first.
func fit(shares []share, limit int, run func(*share) []fabedgev1alpha1.Endpoint) {
	kept, size := 0, 0
	for i := range shares {
		s := &shares[i]
		s.n = s.of
		kept, size = kept+s.of, size+s.size
	}
	// Large endpoints (a hundred ports each) count by the size of the average one. Its share may turn out above the
	// average, so try again with less.
	for kept > limit || size > maxGlobalServiceBytes {
		if size > maxGlobalServiceBytes {
			limit = min(limit, kept*maxGlobalServiceBytes/size) // less than before, because size > maxGlobalServiceBytes
		}
		shareOut(shares, limit)
		kept, size = 0, 0
		for i := range shares {
			kept, size = kept+shares[i].n, size+shares[i].sizeOfChosen(run)
		}
	}
}

// shareOut distributes limit endpoints among the shares, if there are as many.
func shareOut(shares []share, limit int) {
	order := make([]*share, 0, len(shares))
	for i := range shares {
		if shares[i].of > 0 {
			order = append(order, &shares[i])
		}
	}
	// The smallest share is served first; the others divide what it leaves.
	slices.SortFunc(order, func(a, b *share) int {
		return cmp.Or(cmp.Compare(a.of, b.of), cmp.Compare(a.cluster.name, b.cluster.name))
	})
	left := limit
	for i, s := range order {
		s.n = min(s.of, left/(len(order)-i))
		left -= s.n
	}
}

// chosen returns the n endpoints that fit, in their order.
func (s *share) chosen(run func(*share) []fabedgev1alpha1.Endpoint) []fabedgev1alpha1.Endpoint {
	if s.n == 0 {
		return nil
	}
	if s.all == nil {
		s.all = run(s)
	}
	if s.n == len(s.all) {
		return s.all
	}
	chosen := make([]int, len(s.all))
	for i := range chosen {
		chosen[i] = i
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return cmp.Compare(unready(&s.all[a]), unready(&s.all[b])) })
	chosen = chosen[:s.n]
	slices.Sort(chosen)
	kept := make([]fabedgev1alpha1.Endpoint, len(chosen))
	for i, c := range chosen {
		kept[i] = s.all[c]
	}
	return kept
}

// sizeOfChosen returns about how many bytes they take.
func (s *share) sizeOfChosen(run func(*share) []fabedgev1alpha1.Endpoint) int {
	if s.n == s.of {
		return s.size
	}
	size, known := s.sizes[s.n]
	if !known {
		size = sizeOfAll(s.chosen(run))
		if s.sizes == nil || len(s.sizes) >= maxSizes {
			s.sizes = map[int]int{}
		}
		s.sizes[s.n] = size
	}
	return size
}

func sizeOfAll(all []fabedgev1alpha1.Endpoint) (size int) {
	for i := range all {
		size += sizeOf(&all[i])
	}
	return size
}

// SizeOfEndpoints returns about how many bytes a GlobalService's endpoints take as JSON, at least.
func SizeOfEndpoints(g *fabedgev1alpha1.GlobalService) int { return sizeOfAll(g.Spec.Endpoints) }

func unready(e *fabedgev1alpha1.Endpoint) int {
	if e.IsReady() {
		return 0
	}
	return 1
}

// sizeOf returns about how many bytes an endpoint takes as JSON, at least.
func sizeOf(e *fabedgev1alpha1.Endpoint) int {
	n := 64 + len(e.Cluster) + len(e.Zone) + len(e.Region)
	for _, a := range e.Addresses {
		n += len(a) + 3
	}
	if e.Hostname != nil {
		n += len(*e.Hostname) + 14
	}
	for i := range e.Ports {
		n += 45 + len(e.Ports[i].Name)
	}
	return n
}
