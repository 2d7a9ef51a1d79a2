package preview

import (
	"errors"
	"slices"

	"github.com/clusterset/clusterset/internal/merge"
)

// CIDRs gives a cluster's MemberCluster other networks, instead of those that it names.
type CIDRs struct {
	Cluster string `json:"cluster"`
	// To are the networks. "-" alone means none: no limit.
	To []string `json:"to"`
}

func (a *after) confine(c *CIDRs) error {
	m, err := a.member(c.Cluster)
	if err != nil {
		return err
	}
	if len(c.To) == 0 {
		return errors.New("cidrs: to is missing: want the cluster's networks, such as 10.1.0.0/16, or - for no limit")
	}
	m.Spec.CIDRs = slices.DeleteFunc(slices.Clone(c.To), func(cidr string) bool { return cidr == "-" })
	if err := a.put("cidrs", m); err != nil {
		return err
	}
	confined := merge.Confined{CIDRs: m.Spec.CIDRs} // as the hub process says it later
	for _, key := range a.Services() {
		for _, s := range a.services[key].services {
			if of(s) == c.Cluster {
				confined.Service(s)
			}
		}
		for _, e := range a.services[key].endpoints {
			if of(e) == c.Cluster {
				confined.Endpoints(e)
			}
		}
	}
	if left := confined.String(); left != "" {
		a.notes = append(a.notes, c.Cluster+": "+left)
	}
	a.touchExternal()
	return nil
}
