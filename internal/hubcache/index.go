package hubcache

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Index finds the objects of one kind, in this cache or any other of controller-runtime, by a key that is computed from them.
//
// controller-runtime's field indexes do that too, but hold each object twice, once for its namespace and once for all, at some 300 bytes
// an entry, and a List by them copies each object. An agent of 250 clusters has 75,000 entries, and looks up three times per event.
//
// Its methods may be called at the same time once Use or Add has returned.
type Index[T client.Object] struct {
	name    string
	key     func(T) string
	indexer toolscache.Indexer
}

// NewIndex returns an index by key; objects whose key is empty aren't found. The name must differ from those of a cache's other indexes.
func NewIndex[T client.Object](name string, key func(T) string) *Index[T] {
	return &Index[T]{name: name, key: key}
}

// Add adds the index to the kind's informer in a cache, and starts that informer if the cache runs. It doesn't wait until the informer
// has synced. It fails if the API server is unreachable or doesn't serve the kind, and may be called again then.
func (i *Index[T]) Add(ctx context.Context, c cache.Cache, kind T) error {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("index %T by %s: %w", kind, i.name, err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return fmt.Errorf("index %T by %s: its informer is a %T", kind, i.name, informer)
	}
	return i.Use(indexed.GetIndexer())
}

// Use adds the index to a cache's store.
func (i *Index[T]) Use(store toolscache.Indexer) error {
	i.indexer = store
	return store.AddIndexers(toolscache.Indexers{i.name: func(o any) ([]string, error) {
		if key := i.key(o.(T)); key != "" {
			return []string{key}, nil
		}
		return nil, nil
	}})
}

// Of returns the objects with the key, in no order. They belong to the cache and must not be changed.
func (i *Index[T]) Of(key string) []T {
	found, err := i.indexer.ByIndex(i.name, key)
	if err != nil { // the index doesn't exist, although Use added it
		panic(err)
	}
	objects := make([]T, len(found))
	for n, o := range found {
		objects[n] = o.(T)
	}
	return objects
}
