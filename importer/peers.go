package importer

import (
	"context"
	"fmt"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/hubcache"
)

// followPeers makes the cache of the hub read the clusters with which this one shares a community, by the hub's MemberClusters; all
// clusters, if none is in a community. It returns when ctx ends.
func followPeers(ctx context.Context, hub *hubcache.Cache, own string) error {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	retry(ctx, "Waiting for the hub to say who is in the set", func() error {
		informer, err := hub.GetInformer(ctx, &clustersetv1alpha1.MemberCluster{}, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch MemberClusters: %w", err)
		}
		handled, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() },
		})
		if err != nil {
			return fmt.Errorf("watch MemberClusters: %w", err)
		}
		toolscache.WaitForCacheSync(ctx.Done(), handled.HasSynced)
		return nil
	})
	for {
		var members clustersetv1alpha1.MemberClusterList
		if err := hub.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
			if ctx.Err() == nil {
				logf.FromContext(ctx).Info("Can't list the clusters", "reason", err.Error())
			}
		} else {
			hub.SetPeers(communities.Read(members.Items, own))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
