// Package peers maintains the rights of members to read each other's records, in sets whose MemberClusters name communities.
// It always runs in the hub process: with a flag, communities would not be enforced if an administrator forgot to set it.
//
//	MemberClusters ─ internal/communities ─► one RoleBinding in each member's namespace, for those who may read it
//	                                       ─► the ClusterRole of all members, without the records
//
// One RoleBinding in each member's namespace grants the right to read it. So a change of communities is one write per
// namespace, and never removes a right that stays. A right only moves between the ClusterRole and the RoleBindings when the
// set's first community appears or its last one disappears: the new grant is written first, and the old one is removed a
// moment later, when API servers know the new one.
//
// In a set without communities one ClusterRole serves all members, and this package keeps no RoleBinding.
package peers
