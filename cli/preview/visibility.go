package preview

import (
	"errors"
	"fmt"
	"slices"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/communities"
	"github.com/clusterset/clusterset/internal/near"
)

// Communities puts a cluster into communities, instead of those that its MemberCluster names.
type Communities struct {
	Cluster string `json:"cluster"`
	// To are the communities. A cluster that names none is in the community default.
	To []string `json:"to"`
}

// ExportTo changes the clusters and communities that a service is exported to, by all clusters that export it or by one.
type ExportTo struct {
	Service string `json:"service"`
	// From is the name of the cluster. Empty: all clusters that export the service.
	From string `json:"from,omitempty"`
	// To are names of clusters and communities. "-" alone means all clusters that share a community with the exporting one.
	To []string `json:"to"`
}

func (a *after) community(c *Communities) error {
	m, err := a.member(c.Cluster)
	if err != nil {
		return err
	}
	if len(c.To) == 0 {
		return fmt.Errorf("communities of %s: to is missing: want at least one; the community of clusters that name none is %s", c.Cluster, communities.Default)
	}
	m.Spec.Communities = c.To
	return a.put("communities", m)
}

func (a *after) exportTo(e *ExportTo) error {
	to := e.To
	switch {
	case len(to) == 0:
		return errors.New("exportTo: to is missing: want clusters or communities, or - for all")
	case len(to) > clustersetv1alpha1.MaxExportTo:
		return fmt.Errorf("exportTo: there are %d names; want %d at most", len(to), clustersetv1alpha1.MaxExportTo)
	case slices.Equal(to, []string{"-"}):
		to = nil
	}
	for _, name := range to {
		if err := api.CheckLabel(name); err != nil {
			return fmt.Errorf("exportTo: %q %w", name, err)
		}
		if known := a.importers(); !slices.Contains(known, name) {
			return fmt.Errorf("exportTo: %w", near.Unknown("cluster or community", name, known))
		}
	}
	return a.exports(e.Service, e.From, func(spec *clustersetv1alpha1.ExportedServiceSpec) { spec.ExportTo = to })
}

// importers returns what a service can be exported to: the clusters, and the communities that they are in.
func (s *State) importers() []string {
	set := communities.Set{}
	for _, m := range s.members {
		set[m.Name] = m.Spec.Communities
	}
	return set.Names()
}
