package chaos

import "github.com/clusterset/clusterset/test/fleettest"

// fleetOf are the clusters of a run, and the networks that they are in.
type fleetOf struct {
	name     string
	clusters []fleettest.Spec
	networks []string // by cluster; nil if all are in one
}

// All members share a community, so that each sees all exports while the hub enforces communities.
var (
	threeClusters = fleetOf{name: "three clusters", clusters: []fleettest.Spec{
		{Name: "xicheng", Beacons: true, Zone: "beijing", Region: "north", DualStack: true, Communities: []string{"cities", "north"}},
		{Name: "shijiazhuang", Beacons: true, Zone: "hebei", Region: "north", Communities: []string{"cities", "north"}},
		{Name: "minhang", Beacons: true, Zone: "shanghai", Region: "south", DualStack: true, Communities: []string{"cities", "south"}},
	}}
	// twoNetworks are two regions. Each cluster prefers the other one of its network.
	twoNetworks = fleetOf{name: "two networks", networks: []string{"core", "core", "edge", "edge"}, clusters: []fleettest.Spec{
		{Name: "xicheng", Beacons: true, Zone: "beijing", Region: "north", DualStack: true, Communities: []string{"cities", "north"}},
		{Name: "shijiazhuang", Beacons: true, Zone: "hebei", Region: "north", Communities: []string{"cities", "north"}},
		{Name: "minhang", Beacons: true, Zone: "shanghai", Region: "south", DualStack: true, Communities: []string{"cities", "south"}},
		{Name: "gulou", Beacons: true, Zone: "jiangsu", Region: "south", Communities: []string{"cities", "south"}},
	}}
)
