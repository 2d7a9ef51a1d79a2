package store

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
)

// begin begins a list.
func (f *feed) begin() { f.of.store.update(func() { f.of.quota.begin(f.kind) }) }

// compact returns what is to be kept of an object, a record. It is called as soon as the object is decoded. Of a list, it is nil if there is no room.
func (f *feed) compact(o client.Object, listing bool) any {
	name := f.clusterOf(o.GetNamespace(), o.GetName())
	if name == "" {
		return nil
	}
	is, fits := recordOf(o), true
	if f.kind == members || name == f.of.store.options.Cluster {
		is.whole = o.DeepCopyObject().(client.Object) // of a list it isn't alone
	}
	f.of.store.update(func() {
		if known := f.of.store.known(f.kind, name); known != nil {
			is = is.like(known.byName[f.kind][o.GetName()])
		}
		if listing && !f.of.ended && !f.of.quota.list(f.kind, name, is.size()) {
			fits = false
			f.of.store.leftOut(name)
		}
	})
	if !fits {
		return nil
	}
	return is
}

func recordOf(o client.Object) (r record) {
	switch o := o.(type) {
	case *clustersetv1alpha1.ExportedService:
		r.export = door.CompactService(o, time.Now())
	case *clustersetv1alpha1.ExportedEndpoints:
		r.endpoints = door.CompactEndpoints(o)
	}
	return r
}

// clusterOf returns the cluster that an object is of, empty if it is none's.
func (f *feed) clusterOf(namespace, name string) string {
	if f.kind != members {
		name, _ = api.ClusterOfNamespace(namespace)
	}
	return name
}

// A feed is its Reflector's store.

// Add implements toolscache.ReflectorStore.
func (f *feed) Add(o any) error { return f.Update(o) }

// Resync implements toolscache.ReflectorStore.
func (f *feed) Resync() error { return nil }

// Update implements toolscache.ReflectorStore. A change that doesn't fit is left out: the record stays as it was.
func (f *feed) Update(o any) error {
	i := o.(*item)
	is, ok := i.value.(record)
	if !ok {
		return nil
	}
	f.of.store.update(func() {
		if f.of.ended {
			return
		}
		name, c := f.clusterAt(i)
		was, known := c.byName[f.kind][i.name]
		before := 0
		if known {
			before = was.size()
		}
		if !f.of.quota.change(f.kind, name, is.size(), before) {
			f.of.store.leftOut(name)
			return
		}
		if is.size() < before {
			f.of.store.gone(name)
		}
		f.tell(name, c.set(f.kind, i.name, is))
	})
	return nil
}

// Delete implements toolscache.ReflectorStore.
func (f *feed) Delete(o any) error {
	i := o.(*item)
	f.of.store.update(func() {
		if name, c := f.clusterAt(i); c != nil {
			f.of.store.gone(name) // it may have been what was left out
			f.removeNamed(name, c, i.name)
		}
	})
	return nil
}

func (f *feed) removeNamed(cluster string, c *cluster, name string) {
	if was, known := c.byName[f.kind][name]; known {
		f.of.quota.change(f.kind, cluster, 0, was.size())
		f.tell(cluster, c.remove(f.kind, name))
	}
}

// Replace implements toolscache.ReflectorStore.
func (f *feed) Replace(all []any, _ string) error {
	f.of.store.update(func() {
		there := map[string]map[string]bool{}
		for _, o := range all {
			i := o.(*item)
			name, c := f.clusterAt(i)
			if there[name] == nil {
				there[name] = map[string]bool{}
			}
			there[name][i.name] = true
			f.tell(name, c.set(f.kind, i.name, i.value.(record)))
		}
		for name, c := range f.of.clusters {
			for record := range c.byName[f.kind] {
				if !there[name][record] {
					f.of.store.gone(name)
					f.removeNamed(name, c, record)
				}
			}
		}
		f.of.quota.end(f.kind)
		f.of.listed[f.kind] = true
		f.of.store.show()
	})
	return nil
}

// clusterAt returns the cluster that an item is of, nil if it is none's.
func (f *feed) clusterAt(i *item) (string, *cluster) {
	name := f.clusterOf(i.namespace, i.name)
	if name == "" {
		return "", nil
	}
	c := f.of.clusters[name]
	if c == nil {
		limit := f.of.store.options.MaxServices
		if name == f.of.store.options.Cluster {
			limit = 0
		}
		c = newCluster(limit)
		f.of.clusters[name] = c
		if f.kind != members && f.of.store.readingOf(name) == f.of {
			f.of.store.view[name] = c
		}
	}
	return name, c
}

// tell notes which services of a cluster changed, if that can be seen.
func (f *feed) tell(cluster string, keys []types.NamespacedName) {
	if f.of.store.known(f.kind, cluster) != f.of.clusters[cluster] {
		return
	}
	for _, key := range keys {
		if key.Name != "" || f.kind == members {
			f.of.store.changed(cluster, key)
		}
	}
}
