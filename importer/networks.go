package importer

import (
	"context"
	"net/netip"
	"slices"

	"github.com/clusterset/clusterset/importer/desired"
)

// forbidden returns where no external address of another network's cluster may be: in the networks of this network's clusters, at this
// cluster's nodes and API server, and at the hub (D82). It is empty if all clusters of the service are in this network.
func (r *reconciler) forbidden(ctx context.Context, in *desired.Input) (forbidden []netip.Prefix) {
	apart := false
	for cluster := range in.Members {
		apart = apart || in.Apart(cluster)
	}
	if !apart {
		return nil
	}
	r.external.Store(true) // before the nodes' addresses are read: whatever changes from now on, all services are looked at again
	all, own := r.members.Members(), in.Members[in.Cluster]
	if own != nil {
		all = append(all, own) // the hub may have lost it
	}
	forbidden = desired.Inside(own, slices.Values(all))
	for _, addr := range r.options.Avoid(ctx) {
		addr = addr.Unmap()
		forbidden = append(forbidden, netip.PrefixFrom(addr, addr.BitLen()))
	}
	slices.SortFunc(forbidden, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(forbidden)
}
