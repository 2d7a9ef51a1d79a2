package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
)

// compact returns what is to be kept of an object. It is called as soon as the object is decoded. Of a list, it is nil if there is no room.
func (f *feed) compact(o client.Object, listing bool) any {
	if m, ok := o.(*clustersetv1alpha1.MemberCluster); ok {
		usable, _ := m.Sanitized() // the hub says what is invalid
		return usable.DeepCopy()   // of a list it isn't alone
	}
	name, ok := api.ClusterOfNamespace(o.GetNamespace())
	if !ok {
		return nil
	}
	is := recordOf(o)
	if name == f.store.options.Cluster {
		is.whole = o.DeepCopyObject().(client.Object)
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	if known := f.store.clusters[name]; known != nil {
		is = is.like(known.byName[f.kind][o.GetName()])
	}
	if listing && f.listing != nil && !f.ended {
		if !f.fits(name, f.listing[name]+is.size) {
			f.store.setOver(name, f.store.cluster(name), true)
			return nil
		}
		f.listing[name] += is.size
	}
	return is
}

func recordOf(o client.Object) (r record) {
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		r.export = door.CompactService(o, time.Now())
		r.of, r.size = r.export.Key, r.export.Size
	case *clustersetv1alpha1.ExportedEndpoints:
		r.endpoints = door.CompactEndpoints(o)
		r.of, r.size = r.endpoints.Key, r.endpoints.Size
	}
	return r
}

// cluster returns what has been read of a cluster. The caller has locked s.
func (s *Store) cluster(name string) *cluster {
	c := s.clusters[name]
	if c == nil {
		c = &cluster{name: name, index: s.index, byName: [2]map[string]record{{}, {}}, services: map[types.NamespacedName]*service{}}
		if name != s.options.Cluster {
			c.maxServices = s.options.MaxServices
		}
		s.clusters[name] = c
	}
	return c
}

// A feed is its Reflector's store.

// Transformer implements toolscache.TransformingStore, for the objects of a list that comes by a watch.
func (f *feed) Transformer() toolscache.TransformFunc {
	return func(o any) (any, error) { return f.item(o.(client.Object), true), nil }
}

// Add implements toolscache.ReflectorStore.
func (f *feed) Add(o any) error { return f.Update(o) }

// Resync implements toolscache.ReflectorStore.
func (f *feed) Resync() error { return nil }

// Update implements toolscache.ReflectorStore. A change that doesn't fit is left out: the record stays as it was.
func (f *feed) Update(o any) error {
	i := f.item(o.(client.Object), false)
	f.change(func() {
		if is, ok := i.value.(record); ok {
			name, _ := api.ClusterOfNamespace(i.Namespace)
			c := f.store.cluster(name)
			if was := c.byName[f.kind][i.Name]; !f.fits(name, c.size[f.kind]-was.size+is.size) {
				f.store.setOver(name, c, true)
				return
			}
		}
		f.set(i)
	})
	return nil
}

// Delete implements toolscache.ReflectorStore.
func (f *feed) Delete(o any) error {
	is := o.(client.Object)
	f.change(func() { f.remove(is.GetNamespace(), is.GetName()) })
	return nil
}

// Replace implements toolscache.ReflectorStore.
func (f *feed) Replace(all []any, _ string) error {
	f.change(func() {
		if f.kind == members && f.store.members == nil {
			f.store.members = map[string]*clustersetv1alpha1.MemberCluster{}
		}
		there := map[[2]string]bool{}
		for _, o := range all {
			if i := o.(*item); i.value != nil {
				there[[2]string{i.Namespace, i.Name}] = true
			}
		}
		for _, at := range f.stored() {
			if !there[at] {
				f.remove(at[0], at[1])
			}
		}
		for _, o := range all {
			f.set(o.(*item))
		}
		f.listing, f.listed = nil, true
		f.store.noteRead()
	})
	return nil
}

// change changes the store, unless another feed has taken the place of this one.
func (f *feed) change(by func()) {
	f.store.update(func() {
		if f.ended {
			return
		}
		by()
		if f.kind == members {
			f.store.follow()
		}
	})
}

// set stores an object.
func (f *feed) set(i *item) {
	switch is := i.value.(type) {
	case *clustersetv1alpha1.MemberCluster:
		f.store.setMember(i.Name, is)
	case record:
		name, _ := api.ClusterOfNamespace(i.Namespace)
		f.store.changed(name, f.store.cluster(name).set(f.kind, i.Name, is)...)
	}
}

// remove removes an object.
func (f *feed) remove(namespace, name string) {
	if f.kind == members {
		f.store.setMember(name, nil)
		return
	}
	of, _ := api.ClusterOfNamespace(namespace)
	if c := f.store.clusters[of]; c != nil {
		f.store.changed(of, c.remove(f.kind, name)...)
	}
}

// stored returns the namespaces and names of what is stored of the feed's scope.
func (f *feed) stored() (all [][2]string) {
	if f.kind == members {
		for name := range f.store.members {
			all = append(all, [2]string{"", name})
		}
		return all
	}
	for of, c := range f.store.clusters {
		namespace := api.MemberNamespace(of)
		if f.namespace == "" || f.namespace == namespace {
			for name := range c.byName[f.kind] {
				all = append(all, [2]string{namespace, name})
			}
		}
	}
	return all
}
