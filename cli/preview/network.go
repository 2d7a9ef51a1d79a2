package preview

import (
	"cmp"
	"errors"
	"slices"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/merge"
)

// Network puts a cluster into a network, instead of the one that its MemberCluster names, or gives it other addresses.
type Network struct {
	Cluster string `json:"cluster"`
	// To is the network. "-" means the one of clusters that name none. Empty: as now, if there are CIDRs.
	To string `json:"to,omitempty"`
	// CIDRs are those of its MemberCluster. Empty: as now; "-" means none.
	CIDRs []string `json:"cidrs,omitempty"`
	// ExternalCIDRs are those of its MemberCluster. Empty: as now; "-" means none.
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
}

func (a *after) network(n *Network) error {
	m, err := a.member(n.Cluster)
	if err != nil {
		return err
	}
	if n.To == "" && len(n.CIDRs) == 0 {
		return errors.New("network: to is missing: want the name of a network, or - for the one of clusters that name none")
	}
	if m.Spec.Network = cmp.Or(n.To, m.Spec.Network); n.To == "-" {
		m.Spec.Network = ""
	}
	none := func(cidr string) bool { return cidr == "-" }
	if len(n.CIDRs) > 0 {
		m.Spec.CIDRs = slices.DeleteFunc(slices.Clone(n.CIDRs), none)
	}
	if len(n.ExternalCIDRs) > 0 {
		m.Spec.ExternalCIDRs = slices.DeleteFunc(slices.Clone(n.ExternalCIDRs), none)
	}
	if err := a.put("network", m); err != nil {
		return err
	}
	if left := a.leftOut(m); left != "" && len(n.CIDRs) > 0 {
		a.notes = append(a.notes, n.Cluster+": "+left)
	}
	if len(m.Spec.ExternalCIDRs) == 0 && n.To != "" {
		a.notes = append(a.notes, n.Cluster+" has no spec.externalCIDRs, so clusters of other networks use nothing of it")
	}
	for key, r := range a.services { // an external address may lie in the cidrs of a cluster that is now in the same network
		for _, e := range r.endpoints {
			a.touched[key] = a.touched[key] || e.Spec.External
		}
	}
	return nil
}

// leftOut says what the networks of a cluster leave out of what it exports, as the hub process says it once they are so.
func (s *State) leftOut(m *clustersetv1alpha1.MemberCluster) string {
	confined := merge.Confined{CIDRs: m.Spec.CIDRs}
	for _, key := range s.Services() {
		for _, r := range s.services[key].services {
			if of(r) == m.Name {
				confined.Add(r)
			}
		}
		for _, r := range s.services[key].endpoints {
			if of(r) == m.Name {
				confined.Add(r)
			}
		}
	}
	return confined.String()
}

// Networks reports whether the clusters are in several networks, or may be with the changes, so that external addresses matter.
func (s *State) Networks(changes ...Change) bool {
	names := s.Clusters()
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Network != nil }) ||
		slices.ContainsFunc(names, func(name string) bool { return s.Member(name).Apart(s.Member(names[0])) })
}
