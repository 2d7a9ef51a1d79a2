package store

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
)

// reading has the records of one namespace on the hub, or of all, that one selector selects, or the MemberClusters. The store's mutex guards what
// changes.
type reading struct {
	store    *Store
	selector string
	feeds    map[kind]*feed
	stop     context.CancelFunc

	ended    bool
	stale    bool // another one must take its place
	late     bool // it has been waited for
	listed   map[kind]bool
	quota    quota
	clusters map[string]*cluster
}

// begin begins a reading. The caller has locked s.
func (s *Store) begin(namespace, selector string, kinds ...kind) *reading {
	r := &reading{
		store: s, selector: selector, feeds: map[kind]*feed{}, listed: map[kind]bool{}, clusters: map[string]*cluster{},
		quota: newQuota(s.options.MaxMemory, s.options.Cluster),
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(s.ctx)
	for _, k := range kinds {
		f := newFeed(s.hub, s.link, k, namespace, selector, records{r, k})
		r.feeds[k] = f
		s.running.Go(func() { f.run(ctx) })
	}
	return r
}

// end ends a reading, if it is one.
func (r *reading) end() {
	if r != nil {
		r.ended = true
		r.stop()
	}
}

// as reports whether it is a reading by a selector that needn't begin again.
func (r *reading) as(selector string) bool { return r != nil && r.selector == selector && !r.stale }

// done reports whether it has read everything.
func (r *reading) done() bool { return len(r.listed) == len(r.feeds) }

// records is where a feed's objects are kept.
type records struct {
	*reading
	kind kind
}

// begin implements sink.
func (r records) begin() { r.store.update(func() { r.quota.begin(r.kind) }) }

// compact implements sink.
func (r records) compact(o client.Object, listing bool) any {
	name := r.clusterOf(o.GetNamespace(), o.GetName())
	if name == "" {
		return nil
	}
	is, fits := recordOf(o), true
	if r.kind == members || name == r.store.options.Cluster {
		is.whole = o.DeepCopyObject().(client.Object) // of a list it isn't alone
	}
	r.store.update(func() {
		if known := r.store.known(r.kind, name); known != nil {
			is = is.like(known.byName[r.kind][o.GetName()])
		}
		if listing && !r.ended && !r.quota.list(r.kind, name, is.size()) {
			fits = false
			r.store.leftOut(name)
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
func (r records) clusterOf(namespace, name string) string {
	if r.kind != members {
		name, _ = api.ClusterOfNamespace(namespace)
	}
	return name
}

// put implements sink. A change that doesn't fit is left out: the record stays as it was.
func (r records) put(i *item) {
	is, ok := i.value.(record)
	if !ok {
		return
	}
	r.store.update(func() {
		if r.ended {
			return
		}
		name, c := r.clusterAt(i)
		was, known := c.byName[r.kind][i.name]
		before := 0
		if known {
			before = was.size()
		}
		if !r.quota.change(r.kind, name, is.size(), before) {
			r.store.leftOut(name)
			return
		}
		if is.size() < before {
			r.store.gone(name)
		}
		r.tell(name, c.set(r.kind, i.name, is))
	})
}

// remove implements sink.
func (r records) remove(i *item) {
	r.store.update(func() {
		if name, c := r.clusterAt(i); c != nil {
			r.store.gone(name) // it may have been what was left out
			r.removeNamed(name, c, i.name)
		}
	})
}

func (r records) removeNamed(cluster string, c *cluster, name string) {
	if was, known := c.byName[r.kind][name]; known {
		r.quota.change(r.kind, cluster, 0, was.size())
		r.tell(cluster, c.remove(r.kind, name))
	}
}

// replace implements sink.
func (r records) replace(all []any) {
	r.store.update(func() {
		there := map[string]map[string]bool{}
		for _, o := range all {
			i := o.(*item)
			name, c := r.clusterAt(i)
			if there[name] == nil {
				there[name] = map[string]bool{}
			}
			there[name][i.name] = true
			r.tell(name, c.set(r.kind, i.name, i.value.(record)))
		}
		for name, c := range r.clusters {
			for record := range c.byName[r.kind] {
				if !there[name][record] {
					r.store.gone(name)
					r.removeNamed(name, c, record)
				}
			}
		}
		r.quota.end(r.kind)
		r.listed[r.kind] = true
		r.store.show()
	})
}

// clusterAt returns the cluster that an item is of, nil if it is none's.
func (r records) clusterAt(i *item) (string, *cluster) {
	name := r.clusterOf(i.namespace, i.name)
	if name == "" {
		return "", nil
	}
	c := r.clusters[name]
	if c == nil {
		limit := r.store.options.MaxServices
		if name == r.store.options.Cluster {
			limit = 0
		}
		c = newCluster(limit)
		r.clusters[name] = c
		if r.kind != members && r.store.readingOf(name) == r.reading {
			r.store.view[name] = c
		}
	}
	return name, c
}

// tell notes which services of a cluster changed, if that can be seen.
func (r records) tell(cluster string, keys []types.NamespacedName) {
	if r.store.known(r.kind, cluster) != r.clusters[cluster] {
		return
	}
	for _, key := range keys {
		if key.Name != "" || r.kind == members {
			r.store.changed(cluster, key)
		}
	}
}
