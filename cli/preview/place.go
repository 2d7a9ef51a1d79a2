package preview

import (
	"slices"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/place"
	"github.com/clusterset/clusterset/internal/topology"
)

// Places returns the places of all clusters that are neither down nor Expired.
func (s *State) Places() (all []place.Place) {
	for _, name := range s.Clusters() {
		if s.members[name].Status.Phase != clustersetv1alpha1.MemberExpired && !s.down[name] {
			all = append(all, s.PlacesOf(name)...)
		}
	}
	return all
}

// PlacesOf returns the places of a cluster: one for each zone of its spec or nodes, or one without a zone if there are none.
func (s *State) PlacesOf(cluster string) (all []place.Place) {
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
		all = append(all, place.Place{Cluster: cluster, Zone: zone, Region: m.Spec.Region})
	}
	return all
}

// nodes returns the zones of a cluster's nodes, as its agent reported them. None: they are unknown, or the nodes have no zones.
func (s *State) nodes(cluster string) (places []topology.Location) {
	for _, zone := range slices.Sorted(slices.Values(s.usable[cluster].Status.Zones)) {
		places = append(places, topology.Location{Zone: zone})
	}
	return places
}

// hasNodes reports whether a place has nodes, and so service proxies.
func (s *State) hasNodes(p place.Place) bool {
	zones := s.usable[p.Cluster].Status.Zones
	return len(zones) == 0 || slices.Contains(zones, p.Zone)
}
