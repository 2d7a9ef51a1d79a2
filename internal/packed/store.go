package packed

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// NewIndexer is client-go's NewIndexer of a store whose objects are packed. What it returns must not be changed, like everything in a cache:
// others get the same, and it shares memory.
func NewIndexer(key toolscache.KeyFunc, by toolscache.Indexers) toolscache.Indexer {
	return indexer{toolscache.NewIndexer(key, unpacked(by))}
}

// NewInformer is client-go's NewSharedIndexInformer of an informer with such a store.
func NewInformer(of toolscache.ListerWatcher, example runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
	return informer{toolscache.NewSharedIndexInformer(of, example, resync, unpacked(by))}
}

// unpacked returns indexes of packed objects.
func unpacked(by toolscache.Indexers) toolscache.Indexers {
	all := toolscache.Indexers{}
	for name, f := range by {
		all[name] = func(o any) ([]string, error) { return f(unpack(o)) }
	}
	return all
}

func unpackAll(all []any) []any {
	for i := range all {
		all[i] = unpack(all[i])
	}
	return all
}

type indexer struct{ toolscache.Indexer }

// Add implements toolscache.Store.
func (i indexer) Add(o any) error { return i.Indexer.Add(pack(o)) }

// Update implements toolscache.Store.
func (i indexer) Update(o any) error { return i.Indexer.Update(pack(o)) }

// Replace implements toolscache.Store.
func (i indexer) Replace(all []any, version string) error {
	of := make([]any, len(all))
	for n := range all {
		of[n] = pack(all[n])
	}
	return i.Indexer.Replace(of, version)
}

// List implements toolscache.Store.
func (i indexer) List() []any { return unpackAll(i.Indexer.List()) }

// Get implements toolscache.Store.
func (i indexer) Get(o any) (item any, exists bool, err error) {
	item, exists, err = i.Indexer.Get(o)
	return unpack(item), exists, err
}

// GetByKey implements toolscache.Store.
func (i indexer) GetByKey(key string) (item any, exists bool, err error) {
	item, exists, err = i.Indexer.GetByKey(key)
	return unpack(item), exists, err
}

// Index implements toolscache.Indexer.
func (i indexer) Index(name string, o any) ([]any, error) {
	all, err := i.Indexer.Index(name, pack(o))
	return unpackAll(all), err
}

// ByIndex implements toolscache.Indexer.
func (i indexer) ByIndex(name, value string) ([]any, error) {
	all, err := i.Indexer.ByIndex(name, value)
	return unpackAll(all), err
}

// AddIndexers implements toolscache.Indexer.
func (i indexer) AddIndexers(by toolscache.Indexers) error {
	return i.Indexer.AddIndexers(unpacked(by))
}

type informer struct{ toolscache.SharedIndexInformer }

// SetTransform implements toolscache.SharedInformer.
func (i informer) SetTransform(f toolscache.TransformFunc) error {
	return i.SharedIndexInformer.SetTransform(func(o any) (any, error) {
		if _, done := o.(*object); done || f == nil {
			return pack(o), nil
		}
		o, err := f(o)
		return pack(o), err
	})
}

// GetStore implements toolscache.SharedInformer.
func (i informer) GetStore() toolscache.Store { return indexer{i.SharedIndexInformer.GetIndexer()} }

// GetIndexer implements toolscache.SharedIndexInformer.
func (i informer) GetIndexer() toolscache.Indexer { return indexer{i.SharedIndexInformer.GetIndexer()} }

// AddIndexers implements toolscache.SharedIndexInformer.
func (i informer) AddIndexers(by toolscache.Indexers) error {
	return i.SharedIndexInformer.AddIndexers(unpacked(by))
}

// AddEventHandler implements toolscache.SharedInformer.
func (i informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(handler{h})
}

// AddEventHandlerWithResyncPeriod implements toolscache.SharedInformer.
func (i informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, d time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler{h}, d)
}

// AddEventHandlerWithOptions implements toolscache.SharedInformer.
func (i informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(handler{h}, o)
}

// handler gets packed objects, and hands them on unpacked.
type handler struct {
	to toolscache.ResourceEventHandler
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h handler) OnAdd(o any, initial bool) { h.to.OnAdd(unpack(o), initial) }

// OnUpdate implements toolscache.ResourceEventHandler.
func (h handler) OnUpdate(was, is any) { h.to.OnUpdate(unpack(was), unpack(is)) }

// OnDelete implements toolscache.ResourceEventHandler.
func (h handler) OnDelete(o any) {
	if gone, unseen := o.(toolscache.DeletedFinalStateUnknown); unseen {
		gone.Obj = unpack(gone.Obj)
		h.to.OnDelete(gone)
		return
	}
	h.to.OnDelete(unpack(o))
}
