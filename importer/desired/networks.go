package desired

import (
	"iter"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/door"
	"github.com/clusterset/clusterset/internal/merge"
)

// Apart reports whether a cluster is in another network than this one, so that only its external addresses lead to it (D80).
func (in *Input) Apart(cluster string) bool {
	return cluster != in.Cluster && in.Members[cluster].Apart(in.Members[in.Cluster])
}

// Inside returns the networks of the clusters that are in the same network as own, in which no external address of another network's
// cluster may be (D82).
func Inside(own *clustersetv1alpha1.MemberCluster, members iter.Seq[*clustersetv1alpha1.MemberCluster]) (all []netip.Prefix) {
	for m := range members {
		if !m.Apart(own) && !m.Left() {
			all = append(all, api.Networks(m.Spec.CIDRs)...)
		}
	}
	return all
}

// byNetwork leaves out the records that mean nothing here: external addresses of clusters of this network, and the pods of those of others
// (D81). A headless service has none of clusters of others, even if one exports it with a ClusterIP and addresses (D86).
func (in *Input) byNetwork(headless bool) {
	other := func(e *door.Endpoints) bool {
		return e.Usable && (e.External != in.Apart(e.Cluster) || e.External && headless)
	}
	if slices.ContainsFunc(in.Endpoints, other) {
		in.Endpoints = slices.DeleteFunc(slices.Clone(in.Endpoints), other)
	}
}

// notExternal reports whether an address can't be used as an external one of a cluster of another network, and counts it (D82).
func (c *cluster) notExternal(left *api.LeftOut) func(netip.Addr) bool {
	path := field.NewPath("spec", "endpoints")
	if len(c.external) == 0 {
		return func(addr netip.Addr) bool {
			left.Add(func() *field.Error {
				return field.Invalid(path, addr.String(), "can't be used from another network until an administrator of the hub sets spec.externalCIDRs of the cluster's MemberCluster")
			})
			return true
		}
	}
	beyond := merge.Outside(path, c.external, "spec.externalCIDRs of MemberCluster "+c.name, left)
	return func(addr netip.Addr) bool {
		if beyond(addr) {
			return true
		}
		if !slices.ContainsFunc(c.forbidden, func(p netip.Prefix) bool { return p.Contains(addr) }) {
			return false
		}
		left.Add(func() *field.Error {
			return field.Invalid(path, addr.String(), "is an address of this network: a cluster of another one can't lead traffic there")
		})
		return true
	}
}
