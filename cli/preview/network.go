package preview

import (
	"errors"
	"slices"
)

// Network puts a cluster into a network, instead of the one that its MemberCluster names.
type Network struct {
	Cluster string `json:"cluster"`
	// To is the network. "-" means the one of clusters that name none.
	To string `json:"to"`
	// ExternalCIDRs are those of its MemberCluster. Empty: as now; "-" means none.
	ExternalCIDRs []string `json:"externalCIDRs,omitempty"`
}

func (a *after) network(n *Network) error {
	m, err := a.member(n.Cluster)
	if err != nil {
		return err
	}
	if n.To == "" {
		return errors.New("network: to is missing: want the name of a network, or - for the one of clusters that name none")
	}
	if m.Spec.Network = n.To; n.To == "-" {
		m.Spec.Network = ""
	}
	if len(n.ExternalCIDRs) > 0 {
		m.Spec.ExternalCIDRs = slices.DeleteFunc(slices.Clone(n.ExternalCIDRs), func(cidr string) bool { return cidr == "-" })
	}
	if err := a.put("network", m); err != nil {
		return err
	}
	if len(m.Spec.ExternalCIDRs) == 0 {
		a.notes = append(a.notes, n.Cluster+" has no spec.externalCIDRs, so clusters of other networks use nothing of it")
	}
	a.touchExternal()
	return nil
}

// touchExternal marks the services with external addresses as touched: one may lie in the cidrs of a cluster of the same network now, or no longer.
func (a *after) touchExternal() {
	for key, r := range a.services {
		for _, e := range r.endpoints {
			a.touched[key] = a.touched[key] || e.Spec.External
		}
	}
}

// Networks reports whether the clusters are in several networks, or may be with the changes, so that external addresses matter.
func (s *State) Networks(changes ...Change) bool {
	names := s.Clusters()
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Network != nil }) ||
		slices.ContainsFunc(names, func(name string) bool { return s.Member(name).Apart(s.Member(names[0])) })
}
