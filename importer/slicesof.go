package importer

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/clusterset/clusterset/importer/desired"
)

// indexService names the index of EndpointSlices by service.
const indexService = "importer.service"

// slicesOf finds this cluster's EndpointSlices of a service: those of the importer, and those of the cluster's own Service.
//
// controller-runtime's field indexes do that too, but hold each object twice, and a List by them copies each object.
type slicesOf struct{ indexer toolscache.Indexer }

// add adds the index to a cache. It fails if the API server is unreachable, and may be called again then.
func (s *slicesOf) add(ctx context.Context, c cache.Cache) error {
	informer, err := c.GetInformer(ctx, &discoveryv1.EndpointSlice{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("index EndpointSlices: %w", err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return fmt.Errorf("index EndpointSlices: the informer is a %T", informer)
	}
	return s.use(indexed.GetIndexer())
}

func (s *slicesOf) use(indexer toolscache.Indexer) error {
	s.indexer = indexer
	return indexer.AddIndexers(toolscache.Indexers{indexService: func(o any) ([]string, error) {
		slice := o.(client.Object)
		key, ok := backedBy(slice)
		if !ok {
			key, ok = desired.ServiceOf(slice)
		}
		if !ok {
			return nil, nil
		}
		return []string{key.String()}, nil
	}})
}

// of returns the slices of a service, in no order. They belong to the cache.
func (s *slicesOf) of(service string) []*discoveryv1.EndpointSlice {
	found, err := s.indexer.ByIndex(indexService, service)
	if err != nil { // the index doesn't exist, although use added it
		panic(err)
	}
	all := make([]*discoveryv1.EndpointSlice, len(found))
	for i, o := range found {
		all[i] = o.(*discoveryv1.EndpointSlice) //nolint:forcetypeassert // the informer's kind
	}
	return all
}

// backedBy returns the Service of this cluster to which another owner's EndpointSlice belongs.
func backedBy(o client.Object) (types.NamespacedName, bool) {
	name := o.GetLabels()[discoveryv1.LabelServiceName]
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: name}, name != "" && !desired.Owned(o)
}
