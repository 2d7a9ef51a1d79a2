package store

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/internal/door"
)

// record is what is kept of a record: one of the two values and, if it is this cluster's own, the object.
type record struct {
	of        types.NamespacedName // the service
	size      int                  // in bytes, about
	export    *door.Export
	endpoints *door.Endpoints
	whole     client.Object
}

// like returns the record with the pointers of an equal one that is known.
func (r record) like(known record) record {
	if known.export != nil && known.export.Equal(r.export) {
		r.export = known.export
	}
	if known.endpoints != nil && known.endpoints.Equal(r.endpoints) {
		r.endpoints = known.endpoints
	}
	if known.whole != nil && equality.Semantic.DeepEqual(known.whole, r.whole) {
		r.whole = known.whole
	}
	return r
}

// cluster has the records of one cluster.
type cluster struct {
	name        string
	index       index // the store's
	maxServices int   // 0: no bound
	over        bool  // something is left out for want of memory
	byName      [2]map[string]record
	size        [2]int // in bytes
	services    map[types.NamespacedName]*service
	// order has the exports that count towards maxServices, the first one first.
	order []*door.Export
}

// index has the names of the clusters with records of each service, sorted.
type index map[types.NamespacedName][]string

func (x index) add(key types.NamespacedName, cluster string) {
	at, _ := slices.BinarySearch(x[key], cluster)
	x[key] = slices.Insert(x[key], at, cluster)
}

func (x index) remove(key types.NamespacedName, cluster string) {
	if x[key] = slices.DeleteFunc(x[key], func(name string) bool { return name == cluster }); len(x[key]) == 0 {
		delete(x, key)
	}
}

// service has the records of one service. Records whose names say another service than they do share one.
type service struct {
	export    *door.Export
	endpoints []*door.Endpoints // by name
}

// set stores a record. It returns the services that it changes.
func (c *cluster) set(k kind, name string, r record) (changed []types.NamespacedName) {
	was, known := c.byName[k][name]
	if known && was == r {
		return nil
	}
	changed = append(c.remove(k, name), r.of)
	c.byName[k][name] = r
	c.size[k] += r.size
	s := c.services[r.of]
	if s == nil {
		s = &service{}
		c.services[r.of] = s
		c.index.add(r.of, c.name)
	}
	if r.export != nil {
		s.export = r.export
		return append(changed, c.count(r.export, true)...)
	}
	i, _ := slices.BinarySearchFunc(s.endpoints, name, byName)
	s.endpoints = slices.Insert(s.endpoints, i, r.endpoints)
	return changed
}

func byName(e *door.Endpoints, name string) int { return strings.Compare(e.Name, name) }

// remove removes a record. It returns the services that this changes.
func (c *cluster) remove(k kind, name string) (changed []types.NamespacedName) {
	was, known := c.byName[k][name]
	if !known {
		return nil
	}
	delete(c.byName[k], name)
	c.size[k] -= was.size
	changed = []types.NamespacedName{was.of}
	s := c.services[was.of]
	if was.export != nil {
		if s.export == was.export {
			s.export = nil
		}
		changed = append(changed, c.count(was.export, false)...)
	} else if i, found := slices.BinarySearchFunc(s.endpoints, name, byName); found {
		s.endpoints = slices.Delete(s.endpoints, i, i+1)
	}
	if s.export == nil && len(s.endpoints) == 0 {
		delete(c.services, was.of)
		c.index.remove(was.of, c.name)
	}
	return changed
}

// first orders exports by when the hub received them, then by name.
func first(a, b *door.Export) int {
	return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
}

func counts(e *door.Export) bool { return !e.Withdrawn && e.Key.Name != "" && e.Key.Namespace != "" }

// count counts an export that is new, or doesn't any more count one that is gone. It returns the service that may be beyond the bound or within it
// because of that.
func (c *cluster) count(e *door.Export, is bool) []types.NamespacedName {
	if !counts(e) {
		return nil
	}
	i, found := slices.BinarySearchFunc(c.order, e, first)
	if is {
		c.order = slices.Insert(c.order, i, e)
		return c.beyond()
	}
	was := c.beyond()
	if found {
		c.order = slices.Delete(c.order, i, i+1)
	}
	return was
}

// beyond returns the first service that is beyond the bound, if any.
func (c *cluster) beyond() []types.NamespacedName {
	if c.maxServices == 0 || len(c.order) <= c.maxServices {
		return nil
	}
	return []types.NamespacedName{c.order[c.maxServices].Key}
}

// capped reports whether a service is beyond the bound.
func (c *cluster) capped(key types.NamespacedName) bool {
	s := c.services[key]
	return c.maxServices > 0 && len(c.order) > c.maxServices && s != nil && s.export != nil && counts(s.export) &&
		first(s.export, c.order[c.maxServices-1]) > 0
}

const (
	// DefaultMaxMemory is how much memory one cluster's records may take here: about what 5,000 services of twenty endpoints do.
	DefaultMaxMemory = 16 << 20
	// readAgain is how often what was left out for want of memory is read again, if there is room.
	readAgain = 10 * time.Minute
)

// fits reports whether records of a feed's kind may take this many bytes of a cluster's memory (rule C58 of docs/spec/control-plane.md). What a
// list under way has is counted beside what is stored. The caller has locked s.
func (f *feed) fits(name string, size int) bool {
	s, other := f.store, endpoints-f.kind
	if s.options.MaxMemory == 0 || name == s.options.Cluster {
		return true
	}
	rest := 0
	if c := s.clusters[name]; c != nil {
		rest = c.size[other]
	}
	if beside := s.feeds[scope{other, f.namespace}]; beside != nil {
		rest = max(rest, beside.listing[name])
	}
	return size+rest <= s.options.MaxMemory
}

// setOver notes whether something of a cluster is left out. The caller has locked s.
func (s *Store) setOver(name string, c *cluster, over bool) {
	if c.over == over {
		return
	}
	c.over = over
	if s.over == nil {
		s.over = map[string]bool{}
	}
	s.over[name] = over
}

// readLeftOut reads again what was left out, where a quarter of the room is free. The caller has locked s.
func (s *Store) readLeftOut() {
	for name, c := range s.clusters {
		if c.over && c.size[services]+c.size[endpoints] <= s.options.MaxMemory/4*3 {
			s.setOver(name, c, false)
			for _, f := range s.feedsOf(name) {
				s.end(f.scope)
			}
		}
	}
	s.follow()
}

// item is an object on its way through a Reflector: where it is on the hub, and what is kept of it.
type item struct {
	metav1.ObjectMeta
	value any // a record or a MemberCluster; nil: nothing
}

// GetObjectKind implements runtime.Object.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object. An item never changes.
func (i *item) DeepCopyObject() runtime.Object { return i }

// item returns an object's item. Its value is nil if there is no room for it in a list.
func (f *feed) item(o client.Object, listing bool) *item {
	if is, ok := o.(*item); ok {
		return is
	}
	return &item{metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName(), ResourceVersion: o.GetResourceVersion()}, f.compact(o, listing)}
}

// opened is an open watch.
type opened struct {
	watch.Interface
	feed *feed
}

// Stop implements watch.Interface. A Reflector calls it whenever a watch ends.
func (o opened) Stop() {
	o.feed.setLost(time.Now())
	o.Interface.Stop()
}
