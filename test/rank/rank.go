// Package rank says which endpoints a name uses. It follows the rules A21 to A31 and A80 of docs/spec/answers.md in their order, as simply as
// possible, and shares no code with internal/topology: it is the oracle of all tests that compare ranking.
package rank

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
)

// Server is where the server is. What is unknown is empty.
type Server struct{ Cluster, Zone, Region string }

// Endpoint is an address with everything that determines its rank.
type Endpoint struct {
	Addr      netip.Addr
	Cluster   string
	Zones     []string // its own zone, or else those of its cluster
	Region    string
	ClusterIP bool // it stands for its whole cluster
	Behind    int  // how many ready endpoints are behind a ClusterIP; less than one counts as one
	Spare     bool // it is beyond its cluster's share
	// What is known of the cluster.
	Drained, Suspect, Expired, Unreachable bool
}

// Policy is a service's policy. Tiers are "cluster", "zone", "region" and "any".
type Policy struct {
	Prefer   []string // nil means zone and then region
	Boundary string   // empty means any
	MinReady int
}

// PolicyOf makes a Policy of another type's tiers.
func PolicyOf[T fmt.Stringer](prefer []T, boundary T, minReady int) Policy {
	p := Policy{Boundary: boundary.String(), MinReady: minReady}
	if prefer != nil {
		p.Prefer = []string{}
	}
	for _, tier := range prefer {
		p.Prefer = append(p.Prefer, tier.String())
	}
	return p
}

// Near reports whether an endpoint is as near as the tier requires. An unknown place is in no tier but any (A26). The ClusterIP of the
// server's own cluster is in every tier (A29).
func (s Server) Near(tier string, e Endpoint) bool {
	own := e.Cluster != "" && e.Cluster == s.Cluster
	switch {
	case own && e.ClusterIP:
		return true
	case tier == "cluster":
		return own
	case tier == "zone":
		contradicted := e.Region != "" && s.Region != "" && e.Region != s.Region
		return s.Zone != "" && slices.Contains(e.Zones, s.Zone) && !contradicted
	case tier == "region":
		return s.Region != "" && e.Region == s.Region
	}
	return true
}

// The classes of endpoints by the health of their cluster, the best one first.
const (
	good = iota
	degraded
	expired
)

// health returns the class of an endpoint. For itself, a cluster is neither Suspect nor Expired nor unreachable (A22, A23, A24, A80).
func (s Server) health(e Endpoint) int {
	own := e.Cluster == s.Cluster
	switch {
	case e.Expired && !own:
		return expired
	case e.Drained, e.Spare, !own && (e.Suspect || e.Unreachable):
		return degraded
	}
	return good
}

// Spare returns the addresses of a cluster's ready endpoints that are beyond a share, of both families (A80).
func Spare(percent int, ready []netip.Addr) map[netip.Addr]bool {
	spare := map[netip.Addr]bool{}
	for _, v4 := range []bool{true, false} {
		var all []netip.Addr
		for _, addr := range ready {
			if addr.Is4() == v4 && !slices.Contains(all, addr) {
				all = append(all, addr)
			}
		}
		slices.SortFunc(all, func(a, b netip.Addr) int {
			x, y := sha256.Sum256(a.AsSlice()), sha256.Sum256(b.AsSlice())
			return bytes.Compare(x[:], y[:])
		})
		for i, addr := range all {
			spare[addr] = float64(i) >= float64(len(all)*percent)/100 // so that part of an endpoint counts as one
		}
	}
	return spare
}

// Best returns which of the endpoints are used, and the last tier of them, as "zone" or "degraded zone". Endpoints of Expired clusters
// are used if useExpired says so (D4 of docs/spec/data-path.md), and if there are no others.
func (s Server) Best(p Policy, useExpired bool, endpoints []Endpoint) (used []bool, last string) {
	tiers := append([]string{"zone", "region"}, "any")
	if p.Prefer != nil {
		tiers = append(slices.Clone(p.Prefer), "any")
	}
	used = make([]bool, len(endpoints))
	for _, class := range []int{good, degraded, expired} { // A22
		if class == expired && !useExpired {
			break
		}
		for _, tier := range tiers { // A25; the next tier joins while there are too few (A30)
			for i, e := range endpoints {
				if s.health(e) == class && s.Near(p.Boundary, e) && s.Near(tier, e) && !used[i] {
					used[i], last = true, tier
				}
			}
			if n := count(endpoints, used); n > 0 && n >= p.MinReady {
				break
			}
		}
		if last != "" && class != good {
			last = "degraded " + last
		}
		if last != "" {
			break
		}
	}
	return used, last
}

// count returns how many endpoints are behind the addresses in use, by the family that has more of them (A31).
func count(endpoints []Endpoint, used []bool) int {
	behind := map[netip.Addr]int{}
	for i, e := range endpoints {
		if used[i] {
			behind[e.Addr] = max(behind[e.Addr], e.Behind, 1)
		}
	}
	v4, v6 := 0, 0
	for addr, n := range behind {
		if addr.Is4() {
			v4 += n
		} else {
			v6 += n
		}
	}
	return max(v4, v6)
}
