package store

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
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
	maxServices int  // 0: no bound
	over        bool // something is left out for want of memory
	byName      [2]map[string]record
	size        [2]int // in bytes
	services    map[types.NamespacedName]*service
	// order has the exports that count towards maxServices, the first one first.
	order []*door.Export
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
