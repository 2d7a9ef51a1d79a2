package hubcache

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	toolscache "k8s.io/client-go/tools/cache"
)

func slice(namespace, name, service string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{}
	s.Namespace, s.Name, s.Labels = namespace, name, map[string]string{"service": service}
	return s
}

// An index includes objects that were in the store before it, follows changes, and returns the store's own objects.
func TestIndexFollowsItsStore(t *testing.T) {
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	web := slice("shop", "web-1", "web")
	for _, s := range []*discoveryv1.EndpointSlice{web, slice("shop", "none", ""), slice("other", "web-1", "web")} {
		if err := store.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	index := NewIndex("test.service", func(s *discoveryv1.EndpointSlice) string {
		if s.Labels["service"] == "" {
			return ""
		}
		return s.Namespace + "/" + s.Labels["service"]
	})
	if err := index.Use(store); err != nil {
		t.Fatal(err)
	}
	if found := index.Of("shop/web"); len(found) != 1 || found[0] != web {
		t.Errorf("shop/web: got %v", found)
	}
	if found := index.Of("shop/"); len(found) != 0 {
		t.Errorf("an object without a key is found: %v", found)
	}
	if err := store.Update(slice("shop", "web-1", "api")); err != nil {
		t.Fatal(err)
	}
	if web, api := index.Of("shop/web"), index.Of("shop/api"); len(web) != 0 || len(api) != 1 {
		t.Errorf("after a change: web has %d and api %d, want 0 and 1", len(web), len(api))
	}
	if err := index.Use(store); err == nil {
		t.Error("two indexes of one name are accepted")
	}
}
