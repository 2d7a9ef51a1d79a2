// Package communities decides which members of a set see each other's exports.
//
// A member is in the communities that its MemberCluster names, or in Default if it names none. It sees the members with
// which it shares a community. So if no MemberCluster names any, all members see each other. And once the other members are
// in communities of their own, a member that was forgotten, or has just been added, sees none of their exports.
//
// A member can also name Default. That lets a running set adopt communities member by member: first add to each member
// Default and its new communities, then remove Default from each. At every moment two members that share a new community see
// each other.
package communities

import (
	"slices"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Default is the community of members whose MemberClusters name none.
const Default = "default"

// Set maps members' names to their communities. It includes members whose MemberClusters name none.
type Set map[string][]string

// On says whether any member is in a community other than Default. If none is, all members see each other and may read all
// records.
func (s Set) On() bool {
	for _, of := range s {
		if slices.ContainsFunc(of, func(c string) bool { return c != Default }) {
			return true
		}
	}
	return false
}

// Sees says whether member a sees the exports of member b. The relation is symmetric.
func (s Set) Sees(a, b string) bool { return a == b || Share(s[a], s[b]) }

// Peers returns the members that a member sees, including itself, sorted.
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

// Names returns what a service can be exported to, sorted: the members, and the communities that they are in.
func (s Set) Names() (all []string) {
	for name, of := range s {
		all = append(append(all, name), effective(of)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Read returns the members whose records a member reads on the hub, itself first, or nil if no member is in a community: then it reads all. It
// needs no record of a member that has left.
func Read(all []clustersetv1alpha1.MemberCluster, own string) []string {
	set := Set{}
	for i := range all {
		if m := &all[i]; !m.Left() || m.Name == own {
			set[m.Name] = m.Spec.Communities
		}
	}
	if !set.On() {
		return nil
	}
	return append([]string{own}, slices.DeleteFunc(set.Peers(own), func(peer string) bool { return peer == own })...)
}

// Share says whether two members share a community, given the communities that their MemberClusters name.
func Share(a, b []string) bool {
	return slices.ContainsFunc(effective(a), func(c string) bool { return slices.Contains(effective(b), c) })
}

// Allows says whether the member of that name and communities may import a service, given the names of members and
// communities in its export's annotation. An empty list allows all. An export's own cluster always imports it. Importers
// follow it as a preference; it is not a security boundary.
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
