// Package communities says which members of a set see each other's exports.
//
// A member is in the communities that its MemberCluster names, and sees the members that it shares one with, itself among them. Where no
// MemberCluster names any, all see all. Where some do, one that names none sees itself alone: a cluster that somebody forgot, or that
// has just been added, mustn't read what others keep among themselves.
package communities

import (
	"slices"
)

// Set is who is in which communities, by the members' names. Members that are in none are in it, too.
type Set map[string][]string

// On says whether anybody is in a community. Where nobody is, everything is as without communities.
func (s Set) On() bool {
	for _, of := range s {
		if len(of) > 0 {
			return true
		}
	}
	return false
}

// Sees says whether member a sees what member b exports. It is the same the other way round.
func (s Set) Sees(a, b string) bool {
	if a == b || !s.On() {
		return true
	}
	return slices.ContainsFunc(s[a], func(c string) bool { return slices.Contains(s[b], c) })
}

// Peers returns the members that a member sees, itself among them, sorted.
func (s Set) Peers(a string) []string {
	peers := []string{a}
	for b := range s {
		if b != a && s.Sees(a, b) {
			peers = append(peers, b)
		}
	}
	slices.Sort(peers)
	return peers
}

// Allows says whether a member may import an export, by what the export says of that: names of members and of communities. Nothing
// is no limit; an export's own cluster imports it in any case. It is a preference that importers obey, and no boundary.
func (s Set) Allows(exportTo []string, exporter, importer string) bool {
	if len(exportTo) == 0 || exporter == importer {
		return true
	}
	return slices.Contains(exportTo, importer) ||
		slices.ContainsFunc(s[importer], func(c string) bool { return slices.Contains(exportTo, c) })
}
