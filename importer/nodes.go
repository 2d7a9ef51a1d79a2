package importer

import (
	"context"
	"net/netip"
	"slices"
	"time"

	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/internal/nodes"
)

// nodesTimeout is how long the start waits for the nodes. Names and addresses must work even without the right to read nodes.
const nodesTimeout = 10 * time.Second

// awaitNodes waits until the nodes are known, or for nodesTimeout. From now on it calls moved when they are in other places and, if this cluster
// isn't in the network of all others, also when they have other addresses (D82).
func awaitNodes(ctx context.Context, all *nodes.Nodes, across func() bool, moved func()) {
	var had []netip.Addr
	all.OnChange(func(_ context.Context, elsewhere bool) {
		has := all.IPs()
		others := !slices.Equal(had, has)
		had = has
		if elsewhere || others && across() {
			moved()
		}
	})
	select {
	case <-ctx.Done():
	case <-all.Known():
	case <-time.After(nodesTimeout):
		logf.FromContext(ctx).Info("Can't read this cluster's nodes: the account needs the right to get, list and watch them. " +
			"Until then endpoints behind ClusterSetIPs are ranked from this cluster's location, not from each node's zone")
	}
}
