package preview

import (
	"cmp"
	"slices"
	"strings"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer/desired"
	"github.com/clusterset/clusterset/internal/topology"
)

// Place is a location of clients: a cluster, and one of the zones in its MemberCluster or of its nodes.
type Place struct {
	Cluster string `json:"cluster"`
	Zone    string `json:"zone,omitempty"`
	Region  string `json:"region,omitempty"`
}

// String returns the place in the syntax of --from: cluster/zone/region, with "-" for unknown parts.
func (p Place) String() string {
	return cmp.Or(p.Cluster, "-") + "/" + cmp.Or(p.Zone, "-") + "/" + cmp.Or(p.Region, "-")
}

// Matches reports whether the place is at a location. Empty fields of the location match anything.
func (p Place) Matches(meant topology.Location) bool {
	return (meant.Cluster == "" || meant.Cluster == p.Cluster) && (meant.Zone == "" || meant.Zone == p.Zone) && (meant.Region == "" || meant.Region == p.Region)
}

// Places returns the places of all clusters that are neither down nor Expired.
func (s *State) Places() (all []Place) {
	for _, name := range s.Clusters() {
		if s.members[name].Status.Phase != clustersetv1alpha1.MemberExpired && !s.down[name] {
			all = append(all, s.PlacesOf(name)...)
		}
	}
	return all
}

// PlacesOf returns the places of a cluster: one for each zone of its spec or nodes, or one without a zone if there are none.
func (s *State) PlacesOf(cluster string) (all []Place) {
	m := s.usable[cluster]
	if m == nil {
		return nil
	}
	zones := slices.Concat(m.AllZones(), m.Status.Zones)
	slices.Sort(zones)
	zones = slices.Compact(zones)
	if len(zones) == 0 {
		zones = []string{""}
	}
	for _, zone := range zones {
		all = append(all, Place{cluster, zone, m.Spec.Region})
	}
	return all
}

// nodes returns the zones of a cluster's nodes, as its agent reported them. None: they are unknown, or the nodes have no zones.
func (s *State) nodes(cluster string) (places []desired.NodePlace) {
	for _, zone := range s.usable[cluster].Status.Zones {
		places = append(places, desired.NodePlace{Zone: zone})
	}
	slices.SortFunc(places, func(a, b desired.NodePlace) int { return strings.Compare(a.Zone, b.Zone) })
	return places
}

// hasNodes reports whether a place has nodes, and so service proxies.
func (s *State) hasNodes(p Place) bool {
	zones := s.usable[p.Cluster].Status.Zones
	return len(zones) == 0 || slices.Contains(zones, p.Zone)
}
