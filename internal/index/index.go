package index

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterset/clusterset/internal/topology"
)

// Options say for whom an Index answers.
type Options struct {
	// Self is where the DNS server stands.
	Self topology.Location
	// Policy is how it chooses among endpoints.
	Policy topology.Policy
	// Namespaces limits the services to those of the namespaces listed. Nil means all.
	Namespaces []string
	// LongestZone is the length of the longest zone's name, with its final dot. An endpoint whose name would be longer than a
	// DNS name can be in that zone has none.
	LongestZone int
	// Now is the clock that serials are taken from. Nil means time.Now.
	Now func() time.Time
}

// Index holds the objects and publishes a Snapshot of what they come to after every change. Writers exclude each other;
// readers take Snapshot and are never in anyone's way.
type Index struct {
	opts       Options
	namespaces map[string]bool

	mu       sync.Mutex
	services tree
	slices   map[ObjectID]*EndpointSlice
	clusters map[string]*Cluster
	moved    map[string]bool // clusters that changed, whose services aren't built anew yet
	drafts   map[ServiceKey]*Service
	visible  map[string]int // services that exist, by namespace
	synced   bool
	serial   uint32

	counts   [kinds]atomic.Int64
	snapshot atomic.Pointer[Snapshot]
}

// New returns an empty Index. Snapshot is nil until Publish.
func New(opts Options) *Index {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	x := &Index{
		opts:     opts,
		slices:   map[ObjectID]*EndpointSlice{},
		clusters: map[string]*Cluster{},
		moved:    map[string]bool{},
		drafts:   map[ServiceKey]*Service{},
		visible:  map[string]int{},
	}
	if opts.Namespaces != nil {
		x.namespaces = map[string]bool{}
		for _, ns := range opts.Namespaces {
			x.namespaces[ns] = true
		}
	}
	return x
}

// Snapshot returns what the objects come to now, or nil before the first Publish.
func (x *Index) Snapshot() *Snapshot { return x.snapshot.Load() }

// Count returns how many objects of that kind the Index holds.
func (x *Index) Count(k Kind) int64 { return x.counts[k].Load() }

// A change of many objects is made in portions, between which others get the lock: one that builds 100,000 services anew
// takes seconds, for which an update of a single service would have to wait. Each portion is one Snapshot.
const (
	portionServices = 256  // built at most
	portionObjects  = 4096 // looked at at most
)

// Put adds objects or replaces those of the same kind and ID. When it returns, queries see them. An object that says what the
// one held says changes nothing.
func (x *Index) Put(objects ...Object) {
	x.change(len(objects), func(i int) { _ = x.put(objects[i]) })
}

// Delete removes the object of that kind and ID, if there is one.
func (x *Index) Delete(kind Kind, id ObjectID) {
	x.change(1, func(int) { x.remove(kind, id) })
}

// Replace makes objects all there are of a kind: they are put, and those not among them removed. Nobody else may put or
// delete objects of that kind meanwhile. A list that brings nothing new costs a comparison for each object.
func (x *Index) Replace(kind Kind, objects []Object) {
	keep := make(map[Object]struct{}, len(objects)) // by pointer: three times as quick as by ID
	x.change(len(objects), func(i int) { keep[x.put(objects[i])] = struct{}{} })
	var gone []ObjectID
	for o := range x.objects(kind) {
		if _, ok := keep[o]; !ok {
			gone = append(gone, o.ID())
		}
	}
	x.change(len(gone), func(i int) { x.remove(kind, gone[i]) })
}

// change makes n edits and builds anew the services of the clusters that they change.
func (x *Index) change(n int, edit func(i int)) {
	var behind []ServiceKey // services of changed clusters
	for i := 0; i < n || len(behind) > 0; {
		x.mu.Lock()
		for end := min(n, i+portionObjects); i < end && len(x.drafts) < portionServices; i++ {
			edit(i)
		}
		for len(behind) > 0 && len(x.drafts) < portionServices {
			x.draft(behind[0])
			behind = behind[1:]
		}
		x.publish()
		services := x.services
		var moved map[string]bool
		if len(x.moved) > 0 { // else it stays the others', who write to it once the lock is free
			moved, x.moved = x.moved, map[string]bool{}
		}
		x.mu.Unlock()
		if len(moved) > 0 {
			services.root.all(func(s *Service) bool {
				if s.uses(moved) {
					behind = append(behind, s.key)
				}
				return true
			})
		}
	}
}

// Publish makes the Snapshot available: every kind has been read once, so that what is missing is known not to exist.
// Before it, changes only gather, and each service is built but once.
func (x *Index) Publish() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.synced {
		return
	}
	x.synced = true
	x.services.root.all(func(s *Service) bool {
		if x.drafts[s.key] == nil {
			x.draft(s.key)
		}
		return true
	})
	x.publish()
}

// Restore publishes what was known at an earlier time, marked as stale, until Publish replaces it as a whole. It changes
// nothing of what gathers for that. Serials go on after the one given.
func (x *Index) Restore(objects []Object, serial uint32) {
	past := New(x.opts)
	past.Put(objects...)
	past.Publish()
	stale := *past.Snapshot()
	stale.stale, stale.serial = true, serial
	x.mu.Lock()
	defer x.mu.Unlock()
	x.serial = max(x.serial, serial)
	if !x.synced {
		x.snapshot.Store(&stale)
	}
}

// Withdraw takes back what Restore published, unless Publish has replaced it.
func (x *Index) Withdraw() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.synced {
		x.snapshot.Store(nil)
	}
}

// Resume makes serials go on after the one given.
func (x *Index) Resume(serial uint32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.serial = max(x.serial, serial)
}

// Objects returns what the Index holds: the clusters by name, then the objects of each service, the services sorted by key.
func (x *Index) Objects() []Object {
	x.mu.Lock()
	tree, clusters := x.services, slices.Collect(maps.Values(x.clusters))
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

// put returns the object that is held from then on: the old one where both say the same.
func (x *Index) put(o Object) Object {
	switch o := o.(type) {
	case *ServiceImport:
		if held := x.held(o.Service); held != nil && held.imported.equal(o) {
			return held.imported
		}
		if s := x.draft(o.Service); s != nil {
			x.count(KindServiceImport, s.imported == nil)
			s.imported = o
		}
	case *GlobalService:
		if held := x.held(o.Service); held != nil && held.global.equal(o) {
			return held.global
		}
		if s := x.draft(o.Service); s != nil {
			x.count(KindGlobalService, s.global == nil)
			s.global = o
		}
	case *EndpointSlice:
		return x.putSlice(o)
	case *Cluster:
		old := x.clusters[o.Name]
		if old.equal(o) {
			return old
		}
		x.count(KindMemberCluster, old == nil)
		x.clusters[o.Name] = o
		x.move(o.Name)
	}
	return o
}

func (x *Index) putSlice(o *EndpointSlice) Object {
	old := x.slices[o.ID()]
	if old.equal(o) {
		return old
	}
	if old != nil && old.Service != o.Service {
		x.removeSlice(old)
		old = nil
	}
	s := x.draft(o.Service)
	if s == nil {
		return o
	}
	x.slices[o.ID()] = o
	if i := slices.Index(s.slices, old); old != nil && i >= 0 {
		s.slices = replaced(s.slices, i, o)
		return o
	}
	x.count(KindEndpointSlice, true)
	s.slices = inserted(s.slices, len(s.slices), o)
	return o
}

func (x *Index) remove(kind Kind, id ObjectID) {
	key := NewServiceKey(id.Namespace, id.Name)
	switch kind {
	case KindServiceImport:
		if s := x.draft(key); s != nil && s.imported != nil {
			s.imported = nil
			x.counts[kind].Add(-1)
		}
	case KindGlobalService:
		if s := x.draft(key); s != nil && s.global != nil {
			s.global = nil
			x.counts[kind].Add(-1)
		}
	case KindEndpointSlice:
		if old := x.slices[id]; old != nil {
			x.removeSlice(old)
		}
	case KindMemberCluster:
		if x.clusters[id.Name] != nil {
			delete(x.clusters, id.Name)
			x.counts[kind].Add(-1)
			x.move(id.Name)
		}
	}
}

func (x *Index) removeSlice(o *EndpointSlice) {
	delete(x.slices, o.ID())
	x.counts[KindEndpointSlice].Add(-1)
	if s := x.draft(o.Service); s != nil {
		if i := slices.Index(s.slices, o); i >= 0 {
			s.slices = removed(s.slices, i)
		}
	}
}

func (x *Index) count(kind Kind, isNew bool) {
	if isNew {
		x.counts[kind].Add(1)
	}
}

// objects yields the objects of a kind, as they were when it began.
func (x *Index) objects(kind Kind) iter.Seq[Object] {
	x.mu.Lock()
	services := x.services
	var clusters []*Cluster
	if kind == KindMemberCluster {
		clusters = slices.Collect(maps.Values(x.clusters))
	}
	x.mu.Unlock()
	return func(yield func(Object) bool) {
		for _, c := range clusters {
			if !yield(c) {
				return
			}
		}
		services.root.all(func(s *Service) bool {
			switch {
			case kind == KindServiceImport && s.imported != nil:
				return yield(s.imported)
			case kind == KindGlobalService && s.global != nil:
				return yield(s.global)
			case kind == KindEndpointSlice:
				for _, o := range s.slices {
					if !yield(o) {
						return false
					}
				}
			}
			return true
		})
	}
}

// held returns the service as it is at this moment, or nil.
func (x *Index) held(key ServiceKey) *Service {
	if s := x.drafts[key]; s != nil {
		return s
	}
	return x.services.get(string(key))
}

// draft returns a copy of the service that may be changed until publish, or nil where its namespace isn't served.
func (x *Index) draft(key ServiceKey) *Service {
	if s := x.drafts[key]; s != nil {
		return s
	}
	if x.namespaces != nil && !x.namespaces[key.Namespace()] {
		return nil
	}
	s := &Service{key: key}
	if old := x.services.get(string(key)); old != nil {
		*s = *old
	}
	x.drafts[s.key] = s
	return s
}

// move notes that a cluster's place or health changed.
func (x *Index) move(cluster string) {
	if x.synced { // else Publish builds every service
		x.moved[cluster] = true
	}
}

// publish builds the drafts, puts them into the tree and publishes that.
func (x *Index) publish() {
	if !x.synced {
		for _, s := range x.drafts {
			x.store(s)
		}
		clear(x.drafts)
		return
	}
	last := x.snapshot.Load()
	if last != nil && last.stale {
		last = nil
	}
	if last != nil && len(x.drafts) == 0 {
		return
	}
	r := x.ranker()
	changed := last == nil
	namespaces := false
	for _, s := range x.drafts {
		old := x.services.get(string(s.key))
		existed := last != nil && old != nil && old.exists()
		s.build(r)
		changed = changed || existed != s.exists() || existed && !s.sameAnswers(old)
		if existed != s.exists() {
			namespaces = x.see(s) || namespaces
		}
		x.store(s)
	}
	if len(x.drafts) > 2*portionServices {
		x.drafts = map[ServiceKey]*Service{} // Publish's; don't keep its buckets
	} else {
		clear(x.drafts)
	}
	next := &Snapshot{services: x.services, serial: x.nextSerial(changed)}
	if namespaces || last == nil {
		next.namespaces = make(map[string]struct{}, len(x.visible))
		for ns := range x.visible {
			next.namespaces[ns] = struct{}{}
		}
	} else {
		next.namespaces = last.namespaces
	}
	x.snapshot.Store(next)
}

func (x *Index) ranker() *ranker {
	return &ranker{self: x.opts.Self, policy: x.opts.Policy, longest: x.opts.LongestZone, clusters: x.clusters}
}

func (x *Index) store(s *Service) {
	if s.empty() {
		x.services = x.services.del(s.key)
		return
	}
	x.services = x.services.put(s)
}

// see counts a service that came or went, and reports whether its namespace did with it.
func (x *Index) see(s *Service) bool {
	ns := s.key.Namespace()
	if s.exists() {
		x.visible[ns]++
		return x.visible[ns] == 1
	}
	x.visible[ns]--
	if x.visible[ns] == 0 {
		delete(x.visible, ns)
		return true
	}
	return false
}

// nextSerial follows the clock where it can, so that servers of one zone that see the same changes agree within a second,
// and always grows.
func (x *Index) nextSerial(changed bool) uint32 {
	if changed {
		x.serial = max(x.serial+1, uint32(x.opts.Now().Unix())) //nolint:gosec // serials wrap (RFC 1982)
	}
	return x.serial
}
