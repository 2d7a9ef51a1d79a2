package importer

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/follow"
	"github.com/clusterset/clusterset/internal/hubcache"
)

// followPeers makes the cache of the hub read the clusters with which this one shares a community, by the hub's MemberClusters; all
// clusters, if none is in a community. It returns when ctx ends.
func followPeers(ctx context.Context, hub *hubcache.Cache, own string) error {
	return follow.Changes(ctx, hub, &clustersetv1alpha1.MemberCluster{}, func() {
		var members clustersetv1alpha1.MemberClusterList
		if err := hub.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil { // it has synced, or we are stopping
			logf.FromContext(ctx).V(1).Info("Can't list the clusters", "reason", err.Error())
			return
		}
		hub.SetPeers(communities.Read(members.Items, own))
	})
}
