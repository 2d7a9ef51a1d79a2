package importer

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
)

// forbidden returns where no external address of another network's cluster may be: in the networks of this network's clusters, at this
// cluster's nodes and API server, and at the hub (D82). It is empty if all clusters of the service are in this network.
func (r *reconciler) forbidden(ctx context.Context, in *desired.Input) (all []netip.Prefix, err error) {
	apart := false
	for cluster := range in.Members {
		apart = apart || in.Apart(cluster)
	}
	if !apart {
		return nil, nil
	}
	r.external.Store(true) // before the nodes' addresses are read: whatever changes from now on, all services are looked at again
	var members clustersetv1alpha1.MemberClusterList
	if err := r.hub.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MemberClusters of the hub: %w", err)
	}
	own := in.Members[in.Cluster]
	if own != nil {
		members.Items = append(members.Items, *own) // the hub may have lost it
	}
	all = desired.Inside(own, func(yield func(*clustersetv1alpha1.MemberCluster) bool) {
		for i := range members.Items {
			if !yield(&members.Items[i]) {
				return
			}
		}
	})
	for _, addr := range r.options.Avoid(ctx) {
		addr = addr.Unmap()
		all = append(all, netip.PrefixFrom(addr, addr.BitLen()))
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	return slices.Compact(all), nil
}

// networksChanged passes clusters whose networks change, come or go: they decide which external addresses of others are used.
func networksChanged() predicate.Predicate {
	has := func(o client.Object) bool { return len(o.(*clustersetv1alpha1.MemberCluster).Spec.CIDRs) > 0 }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && has(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return has(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*clustersetv1alpha1.MemberCluster), e.ObjectNew.(*clustersetv1alpha1.MemberCluster)
			return was.Apart(is) || !slices.Equal(was.Spec.CIDRs, is.Spec.CIDRs) || has(is) && was.Left() != is.Left()
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
