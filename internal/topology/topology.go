// Package topology decides which of a service's endpoints are used at a location: that of a DNS server, or of a node whose service
// proxy chooses among the endpoints behind a ClusterSetIP. View has the rule.
//
// It is the innermost package: values in, values out. internal/index calls it when a service changes, and the importer when it writes
// EndpointSlices for the service proxy. It isn't called while a query is answered.
package topology

import (
	"fmt"
	"strings"
)

// Location is where a DNS server or an endpoint is. An empty field is unknown, and an unknown field matches nothing: two
// endpoints without a zone are not in the same zone.
type Location struct {
	// Cluster is the cluster's name in the ClusterSet (KEP-2149).
	Cluster string
	// Zone is the value of topology.kubernetes.io/zone, or whatever the operator calls a zone.
	Zone string
	// Region is the value of topology.kubernetes.io/region.
	Region string
}

// Tier is a degree of proximity. The zero value, Any, holds for every pair of locations.
type Tier uint8

// The tiers, from the one that always holds to the narrowest.
const (
	Any Tier = iota
	Region
	Zone
	Cluster
)

var tierNames = [...]string{Any: "any", Region: "region", Zone: "zone", Cluster: "cluster"}

// String returns the name used in the Corefile and in metric labels.
func (t Tier) String() string {
	if int(t) < len(tierNames) {
		return tierNames[t]
	}
	return fmt.Sprintf("tier(%d)", uint8(t))
}

func tierOf(word string) (Tier, bool) {
	for _, t := range [...]Tier{Cluster, Zone, Region} {
		if word == t.String() {
			return t, true
		}
	}
	return Any, false
}

// Within reports whether other is within tier t of l.
//
// Zones match if they are known and equal, unless both regions are known and differ: different regions reuse zone names such as "a".
// Regions and clusters match if they are known and equal.
func (l Location) Within(t Tier, other Location) bool {
	switch t {
	case Cluster:
		return l.Cluster != "" && l.Cluster == other.Cluster
	case Zone:
		return l.Zone != "" && l.Zone == other.Zone && (l.Region == "" || other.Region == "" || l.Region == other.Region)
	case Region:
		return l.Region != "" && l.Region == other.Region
	default:
		return true
	}
}

// Has reports whether the field of l that tier t compares is known.
func (l Location) Has(t Tier) bool {
	switch t {
	case Cluster:
		return l.Cluster != ""
	case Zone:
		return l.Zone != ""
	case Region:
		return l.Region != ""
	default:
		return true
	}
}

// String returns the fields in the syntax of the Corefile's location option, with "-" for unknown ones.
func (l Location) String() string {
	fields := []string{l.Cluster, l.Zone, l.Region}
	for i, f := range fields {
		if f == "" {
			fields[i] = "-"
		}
	}
	return strings.Join(fields, " ")
}
