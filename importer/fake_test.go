package importer

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/door/store"
)

// fakeHub is a shelf, as a store.Store knows it.
type fakeHub struct {
	*shelf
	clock  clock.PassiveClock
	state  store.State
	unread bool

	changed func(cluster string, key types.NamespacedName)
	member  func(name string)

	values map[client.Object]any // so that what is the same keeps its pointer
}

func (f *fakeHub) Service(key types.NamespacedName) []store.Part {
	parts := map[string]*store.Part{}
	part := func(cluster string) *store.Part {
		if parts[cluster] == nil {
			parts[cluster] = &store.Part{Cluster: cluster}
		}
		return parts[cluster]
	}
	for _, e := range f.exports() {
		if e.Key == key {
			part(e.Cluster).Export = e
		}
	}
	for _, o := range f.of(&clustersetv1alpha1.ExportedEndpoints{}).List() {
		o := o.(*clustersetv1alpha1.ExportedEndpoints)
		e := valueOf(f, o, func() *door.Endpoints { return door.CompactEndpoints(o) })
		if e.Key == key {
			part(e.Cluster).Endpoints = append(part(e.Cluster).Endpoints, e)
		}
	}
	var all []store.Part
	for _, p := range parts {
		slices.SortFunc(p.Endpoints, func(a, b *door.Endpoints) int { return cmp.Compare(a.Name, b.Name) })
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b store.Part) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return all
}

func valueOf[T any](f *fakeHub, of client.Object, compact func() T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v, known := f.values[of].(T); known {
		return v
	}
	v := compact()
	f.values[of] = v
	return v
}

func (f *fakeHub) exports() (all []*door.Export) {
	for _, o := range f.of(&clustersetv1alpha1.ExportedService{}).List() {
		s := o.(*clustersetv1alpha1.ExportedService)
		if _, ok := api.ClusterOfNamespace(s.Namespace); ok {
			all = append(all, valueOf(f, s, func() *door.Export { return door.CompactService(s, f.clock.Now()) }))
		}
	}
	return all
}

func (f *fakeHub) Export(cluster string, key types.NamespacedName) *door.Export {
	for _, e := range f.exports() {
		if e.Cluster == cluster && e.Key == key {
			return e
		}
	}
	return nil
}

func (f *fakeHub) keys(is func(*door.Export) bool) (keys []types.NamespacedName) {
	for _, e := range f.exports() {
		if is(e) && !slices.Contains(keys, e.Key) {
			keys = append(keys, e.Key)
		}
	}
	return keys
}

func (f *fakeHub) Keys(cluster string) []types.NamespacedName {
	return f.keys(func(e *door.Export) bool { return e.Cluster == cluster })
}

func (f *fakeHub) All() []types.NamespacedName {
	return f.keys(func(*door.Export) bool { return true })
}

func (f *fakeHub) Services(cluster string) int { return len(f.Keys(cluster)) }

func (f *fakeHub) HasSynced() bool { return !f.unread }

func (f *fakeHub) Read(string) bool { return !f.unread }

func (f *fakeHub) State() store.State { return f.state }

func (f *fakeHub) OnRecords(changed func(cluster string, key types.NamespacedName)) {
	f.changed = changed
}

func (f *fakeHub) OnMember(changed func(name string)) { f.member = changed }

func (f *fakeHub) Member(name string) *clustersetv1alpha1.MemberCluster {
	m := copies{f.shelf}.Member(name)
	if m != nil {
		m, _ = m.Sanitized()
	}
	return m
}

func (f *fakeHub) Members() []*clustersetv1alpha1.MemberCluster { return copies{f.shelf}.Members() }
