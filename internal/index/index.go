package index

import (
	"cmp"
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
	// Zones are the zones that endpoint names are made for, lower case, with a final dot. Set.Name takes an index into it.
	Zones []string
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

// Put adds objects or replaces those of the same kind and ID. When it returns, queries see them.
func (x *Index) Put(objects ...Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range objects {
		x.put(o)
	}
	x.publish()
}

// Delete removes the object of that kind and ID, if there is one.
func (x *Index) Delete(kind Kind, id ObjectID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(kind, id)
	x.publish()
}

// Replace makes objects all there are of a kind: they are put, and those not among them removed, in one change.
func (x *Index) Replace(kind Kind, objects []Object) {
	x.mu.Lock()
	defer x.mu.Unlock()
	keep := make(map[ObjectID]bool, len(objects))
	for _, o := range objects {
		keep[o.ID()] = true
		x.put(o)
	}
	for _, id := range x.ids(kind) {
		if !keep[id] {
			x.remove(kind, id)
		}
	}
	x.publish()
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

// Objects returns what the Index holds, sorted by kind and ID.
func (x *Index) Objects() []Object {
	x.mu.Lock()
	services := x.services
	var all []Object
	for _, c := range x.clusters {
		all = append(all, c)
	}
	x.mu.Unlock()
	services.root.all(func(s *Service) bool {
		if s.imported != nil {
			all = append(all, s.imported)
		}
		for _, slice := range s.slices {
			all = append(all, slice)
		}
		if s.global != nil {
			all = append(all, s.global)
		}
		return true
	})
	return SortObjects(all)
}

// SortObjects sorts objects by kind and ID and drops what occurs twice. It takes the slice over.
func SortObjects(objects []Object) []Object {
	return uniq(objects, func(a, b Object) int {
		p, q := a.ID(), b.ID()
		return cmp.Or(cmp.Compare(a.Kind(), b.Kind()), strings.Compare(p.Namespace, q.Namespace), strings.Compare(p.Name, q.Name))
	})
}

func (x *Index) put(o Object) {
	switch o := o.(type) {
	case *ServiceImport:
		if s := x.draft(o.Service); s != nil {
			x.count(KindServiceImport, s.imported == nil)
			s.imported = o
		}
	case *GlobalService:
		if s := x.draft(o.Service); s != nil {
			x.count(KindGlobalService, s.global == nil)
			s.global = o
		}
	case *EndpointSlice:
		x.putSlice(o)
	case *Cluster:
		old := x.clusters[o.Name]
		x.count(KindMemberCluster, old == nil)
		x.clusters[o.Name] = o
		if old == nil || *old != *o {
			x.redraft(o.Name)
		}
	}
}

func (x *Index) putSlice(o *EndpointSlice) {
	old := x.slices[o.ID()]
	if old != nil && old.Service != o.Service {
		x.removeSlice(old)
		old = nil
	}
	s := x.draft(o.Service)
	if s == nil {
		return
	}
	x.slices[o.ID()] = o
	if i := slices.Index(s.slices, old); old != nil && i >= 0 {
		s.slices = replaced(s.slices, i, o)
		return
	}
	x.count(KindEndpointSlice, true)
	s.slices = inserted(s.slices, len(s.slices), o)
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
			x.redraft(id.Name)
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

// ids lists the objects of a kind that the Index holds.
func (x *Index) ids(kind Kind) []ObjectID {
	var ids []ObjectID
	switch kind {
	case KindEndpointSlice:
		return slices.Collect(maps.Keys(x.slices))
	case KindMemberCluster:
		for name := range x.clusters {
			ids = append(ids, ObjectID{Name: name})
		}
		return ids
	}
	// Drafts are newer than the tree: between them a service is listed twice, which does no harm.
	list := func(s *Service) bool {
		if kind == KindServiceImport && s.imported != nil {
			ids = append(ids, s.imported.ID())
		}
		if kind == KindGlobalService && s.global != nil {
			ids = append(ids, s.global.ID())
		}
		return true
	}
	x.services.root.all(list)
	for _, s := range x.drafts {
		list(s)
	}
	return ids
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

// redraft marks the services that have endpoints of a cluster whose place or health changed.
func (x *Index) redraft(cluster string) {
	if !x.synced {
		return // Publish builds every service
	}
	x.services.root.all(func(s *Service) bool {
		if s.uses(cluster) {
			x.draft(s.key)
		}
		return true
	})
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
	r := &ranker{self: x.opts.Self, policy: x.opts.Policy, zones: x.opts.Zones, clusters: x.clusters}
	last := x.snapshot.Load()
	if last != nil && last.stale {
		last = nil
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
	if len(x.drafts) > 64 {
		x.drafts = map[ServiceKey]*Service{} // a large batch is rare; don't keep its buckets
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
