// Package topology decides how near an endpoint is to the DNS server that answers for it.
//
// It is the innermost package of the data plane: values in, values out. internal/index asks it once per endpoint when a
// service changes; nothing asks it while a query is answered.
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

// Tier is a degree of nearness. The zero value, Any, holds for every pair of locations.
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

// ParseTier reads a tier as the Corefile writes it: cluster, zone or region.
func ParseTier(s string) (Tier, error) {
	for _, t := range []Tier{Cluster, Zone, Region} {
		if s == t.String() {
			return t, nil
		}
	}
	return Any, fmt.Errorf("unknown tier %q: want cluster, zone or region", s)
}

// Within reports whether other is as near to l as tier t asks.
//
// Zones match when they are equal and known, unless both regions are known and differ: zone names such as "a" are reused
// from region to region. Regions and clusters match when they are equal and known.
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

// Has reports whether l knows the field that tier t compares.
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

// String lists the fields as the Corefile's location option takes them, "-" for an unknown one.
func (l Location) String() string {
	fields := []string{l.Cluster, l.Zone, l.Region}
	for i, f := range fields {
		if f == "" {
			fields[i] = "-"
		}
	}
	return strings.Join(fields, " ")
}

// Policy is how a server chooses among endpoints.
type Policy struct {
	// Prefer lists tiers from the most to the least wanted. Any always follows the last. Nil means DefaultPrefer.
	Prefer []Tier
	// Boundary is a tier outside of which no endpoint is ever returned. Any, the zero value, is no boundary.
	Boundary Tier
}

// DefaultPrefer is the order that holds when a Policy names none: own zone, else own region, else all.
var DefaultPrefer = []Tier{Zone, Region}

// Rank returns how well an endpoint at other suits a server at self: 0 for the first preferred tier, counting up, with the
// tier that decided it. ok is false where the boundary forbids the endpoint.
func (p Policy) Rank(self, other Location) (rank int, tier Tier, ok bool) {
	if !self.Within(p.Boundary, other) {
		return 0, Any, false
	}
	prefer := p.Prefer
	if prefer == nil {
		prefer = DefaultPrefer
	}
	for i, t := range prefer {
		if self.Within(t, other) {
			return i, t, true
		}
	}
	return len(prefer), Any, true
}
