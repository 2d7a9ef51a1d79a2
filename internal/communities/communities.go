// Package communities says which members of a set see each other's exports.
//
// A member is in the communities that its MemberCluster names, or in Default where it names none. It sees the members that it shares one
// with. So where no MemberCluster names any, all see all; and once the others are in communities of their own, one that somebody
// forgot, or that has just been added, sees nothing of what they keep among themselves.
//
// That a member without communities is in Default, and may be put into it by name, is what lets a running set move to communities member
// by member: first each is put into Default and its new ones, then Default is taken from each. At no moment do two members that share a new
// community share none.
package communities

import (
	"slices"
)

// Default is the community of the members whose MemberClusters name none.
const Default = "default"

// Set is who is in which communities, by the members' names. Members whose MemberClusters name none are in it, too.
type Set map[string][]string

// On says whether anybody is in another community than Default. Where nobody is, all see all, and may read all.
func (s Set) On() bool {
	for _, of := range s {
		if slices.ContainsFunc(of, func(c string) bool { return c != Default }) {
			return true
		}
	}
	return false
}

// Sees says whether member a sees what member b exports. It is the same the other way round.
func (s Set) Sees(a, b string) bool { return a == b || Share(s[a], s[b]) }

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

// Share says whether two members, by the communities that their MemberClusters name, share one.
func Share(a, b []string) bool {
	return slices.ContainsFunc(effective(a), func(c string) bool { return slices.Contains(effective(b), c) })
}

// Allows says whether a member of that name, in these communities, may import what another exports, by what the export says of
// it: names of members and of communities. Nothing is no limit. An export's own cluster imports it in any case. It is a preference
// that importers obey, and no boundary.
func Allows(exportTo []string, member string, of []string) bool {
	return len(exportTo) == 0 || slices.Contains(exportTo, member) ||
		slices.ContainsFunc(effective(of), func(c string) bool { return slices.Contains(exportTo, c) })
}

var byDefault = []string{Default}

func effective(of []string) []string {
	if len(of) == 0 {
		return byDefault
	}
	return of
}
