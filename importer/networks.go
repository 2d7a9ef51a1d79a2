package importer

import (
	"context"
	"net/netip"
	"slices"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// across reports whether the clusters are in several networks.
func (r *reconciler) across() bool {
	all := append(r.hub.Members(), copies{r.local.cache}.Members()...)
	return slices.ContainsFunc(all, func(m *clustersetv1alpha1.MemberCluster) bool { return m.Apart(all[0]) })
}

// forbidden returns where no external address of another network's cluster may be: in the networks of this network's clusters, at this
// cluster's nodes and API server, and at the hub (D82). It is empty if all clusters of the service are in this network.
func (o *round) forbidden(ctx context.Context) (forbidden []netip.Prefix) {
	apart := false
	for cluster := range o.in.Members {
		apart = apart || o.in.Apart(cluster)
	}
	if !apart {
		return nil
	}
	all, own := o.members.Members(), o.in.Members[o.in.Cluster]
	if own != nil {
		all = append(all, own) // the hub may have lost it
	}
	forbidden = desired.Inside(own, slices.Values(all))
	for _, addr := range o.options.Avoid(ctx) {
		addr = addr.Unmap()
		forbidden = append(forbidden, netip.PrefixFrom(addr, addr.BitLen()))
	}
	return forbidden
}
