package index

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clusterset/clusterset/internal/topology"
)

// Options configure an Index.
type Options struct {
	// Self is the DNS server's location.
	Self topology.Location
	// Policy is the server's policy for choosing endpoints.
	Policy topology.Policy
	// Namespaces limits the services to those of the namespaces listed. Nil means all.
	Namespaces []string
	// LongestZone is the length of the longest zone's name, with its final dot. An endpoint gets no name if that would be too
	// long for DNS in that zone.
	LongestZone int
	// Serials are shared by the Indexes of one server. Nil means that this one has its own.
	Serials *Serials
	// Now is the clock that serials are taken from. Nil means time.Now.
	Now func() time.Time
}

// Index holds the objects and publishes a new Snapshot after every change. Writers exclude each other. Readers load the
// Snapshot and neither block nor are blocked.
type Index struct {
	opts       Options
	namespaces map[string]bool

	mu       sync.Mutex
	services tree
	slices   map[ObjectID]*EndpointSlice
	clusters map[string]*Cluster
	reach    *Reachability       // nil: nothing is known
	seen     map[string]*Cluster // clusters as they are ranked: with what reach says of them
	current  *ranker             // nil after a change of seen
	moved    map[string]bool     // changed clusters whose services haven't been rebuilt yet
	drafts   map[ServiceKey]*Service
	visible  map[string]int // services that exist, by namespace
	synced   bool
	serial   uint32 // of the last Snapshot

	generation uint64 // of current

	counts   [kinds]atomic.Int64
	snapshot atomic.Pointer[Snapshot]
}

// New returns an empty Index. Snapshot is nil until Publish.
func New(opts Options) *Index {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Serials == nil {
		opts.Serials = &Serials{}
	}
	x := &Index{
		opts:     opts,
		slices:   map[ObjectID]*EndpointSlice{},
		clusters: map[string]*Cluster{},
		seen:     map[string]*Cluster{},
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

// Namespaces returns those that the services are limited to, or nil.
func (x *Index) Namespaces() []string { return x.opts.Namespaces }

// Snapshot returns the current Snapshot, or nil before the first Publish.
func (x *Index) Snapshot() *Snapshot { return x.snapshot.Load() }

// Count returns how many objects of that kind the Index holds.
func (x *Index) Count(k Kind) int64 { return x.counts[k].Load() }

// A change of many objects is made in portions, and the lock is released between them: rebuilding 100,000 services takes
// seconds, and an update of a single service must not wait that long. Each portion publishes a Snapshot.
const (
	portionServices = 256  // rebuilt at most
	portionObjects  = 4096 // looked at at most
)

// Put adds objects or replaces those of the same kind and ID. When it returns, queries see them. An object that equals the
// one held changes nothing.
func (x *Index) Put(objects ...Object) {
	x.change(len(objects), func(i int) { _ = x.put(objects[i]) })
}

// Delete removes the object of that kind and ID, if there is one.
func (x *Index) Delete(kind Kind, id ObjectID) {
	x.change(1, func(int) { x.remove(kind, id) })
}

// Replace replaces all objects of a kind: it puts the given ones and removes all others. No other goroutine may put or delete
// objects of that kind meanwhile. A list without changes costs one comparison per object.
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

// change makes n edits and rebuilds the services of the clusters that they change.
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
		if len(x.moved) > 0 { // otherwise it still belongs to other writers, who use it once the lock is free
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

// Publish makes the Snapshot available. Call it when every kind has been read once, so that a missing object is known not to
// exist. Until then changes are only collected, so that each service is built only once.
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

// put returns the object to hold from now on: the old one if both are equal.
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
	case *Reachability:
		if x.reach.equal(o) {
			return x.reach
		}
		x.count(KindReachability, x.reach == nil)
		x.know(o)
	}
	return o
}

// know replaces what is known of the ways to other clusters.
func (x *Index) know(now *Reachability) {
	was := x.reach
	x.reach = now
	for _, o := range []*Reachability{was, now} {
		if o == nil {
			continue
		}
		for _, cluster := range o.Unreachable {
			if was.has(cluster) != now.has(cluster) {
				x.move(cluster)
			}
		}
	}
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
	case KindReachability:
		if x.reach != nil && id == x.reach.ID() {
			x.counts[kind].Add(-1)
			x.know(nil)
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

// objects yields the objects of a kind, as of the start of the iteration.
func (x *Index) objects(kind Kind) iter.Seq[Object] {
	x.mu.Lock()
	services := x.services
	var clusters []*Cluster
	if kind == KindMemberCluster {
		clusters = slices.Collect(maps.Values(x.clusters))
	}
	reach := x.reach
	x.mu.Unlock()
	return func(yield func(Object) bool) {
		if kind == KindReachability && reach != nil {
			yield(reach)
			return
		}
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

// held returns the current state of the service, or nil.
func (x *Index) held(key ServiceKey) *Service {
	if s := x.drafts[key]; s != nil {
		return s
	}
	return x.services.get(string(key))
}

// draft returns a copy of the service that may be changed until publish, or nil if its namespace isn't served.
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

// move records that a cluster's location or health changed.
func (x *Index) move(cluster string) {
	x.current = nil
	switch c := x.clusters[cluster]; {
	case c == nil:
		delete(x.seen, cluster)
	case x.reach.has(cluster):
		unreachable := *c
		unreachable.Unreachable = true
		x.seen[cluster] = &unreachable
	default:
		x.seen[cluster] = c
	}
	if x.synced { // otherwise Publish builds every service
		x.moved[cluster] = true
	}
}

// publish builds the drafts, puts them into the tree and publishes it.
func (x *Index) publish() {
	if !x.synced {
		for _, s := range x.drafts {
			x.store(s)
		}
		clear(x.drafts)
		return
	}
	last := x.snapshot.Load()
	if last != nil && last.Stale() {
		last = nil
	}
	r := x.ranker()
	if last != nil && len(x.drafts) == 0 && last.ranker == r {
		return
	}
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
		x.drafts = map[ServiceKey]*Service{} // Publish's drafts may be many; a cleared map would keep their buckets
	} else {
		clear(x.drafts)
	}
	next := &Snapshot{services: x.services, ranker: r, serial: x.nextSerial(changed)}
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

// ranker returns one for the clusters as they are now. It doesn't change.
func (x *Index) ranker() *ranker {
	if x.current == nil {
		x.generation++
		x.current = &ranker{
			self: x.opts.Self, policy: x.opts.Policy, longest: x.opts.LongestZone, clusters: maps.Clone(x.seen), generation: x.generation,
		}
	}
	return x.current
}

func (x *Index) store(s *Service) {
	if s.empty() {
		x.services = x.services.del(s.key)
		return
	}
	x.services = x.services.put(s)
}

// see counts a service that was added or removed, and reports whether that added or removed its namespace.
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

// Renumber publishes the state under a new serial, because an answer has changed that doesn't depend on objects. It does nothing before
// Publish, which takes a new serial anyway.
func (x *Index) Renumber() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.synced {
		next := *x.snapshot.Load()
		next.serial = x.nextSerial(true)
		x.snapshot.Store(&next)
	}
}

// nextSerial returns another serial if something changed, else the last one.
func (x *Index) nextSerial(changed bool) uint32 {
	if changed {
		x.serial = x.opts.Serials.next(x.opts.Now())
	}
	return x.serial
}
