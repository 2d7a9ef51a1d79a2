package view

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// overlaps finds clusters of one network whose cidrs have addresses in common: what has such an address can't be told apart, and each may
// export the other's. In different networks they may overlap (D96 of docs/spec/data-path.md).
func overlaps(members []clustersetv1alpha1.MemberCluster) (problems []Problem) {
	type network struct {
		netip.Prefix
		of *clustersetv1alpha1.MemberCluster
	}
	var all []network
	for i := range members {
		m := &members[i]
		if m.Left() {
			continue
		}
		for _, p := range api.Networks(m.Spec.CIDRs) {
			all = append(all, network{p, m})
		}
	}
	slices.SortFunc(all, func(a, b network) int {
		return cmp.Or(cmp.Compare(a.of.Spec.Network, b.of.Spec.Network), a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()), cmp.Compare(a.of.Name, b.of.Name))
	})
	var around []network // those that contain the current one, the widest first
	found := map[[2]string]bool{}
	for _, n := range all {
		for len(around) > 0 && (around[len(around)-1].of.Apart(n.of) || !around[len(around)-1].Contains(n.Addr())) {
			around = around[:len(around)-1]
		}
		for _, wide := range around {
			pair := [2]string{min(wide.of.Name, n.of.Name), max(wide.of.Name, n.of.Name)}
			if wide.of.Name == n.of.Name || found[pair] {
				continue
			}
			found[pair] = true
			problems = append(problems, Problem{
				Name: pair[0], What: "MemberCluster", Reason: "CIDRsOverlap",
				Message: fmt.Sprintf("%s of %s and %s of %s overlap, and both are in %s: the same address can be in either", wide.Prefix, wide.of.Name, n.Prefix, n.of.Name, networkName(n.of.Spec.Network)),
				Cure:    "correct spec.cidrs of the two MemberClusters on the hub; or, if these clusters can't reach each other's pods, put them into different networks (spec.network)",
			})
		}
		around = append(around, n)
	}
	slices.SortFunc(problems, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Message, b.Message)) })
	return problems
}
