// Package peers keeps the rights by which members read each other's records, for sets whose MemberClusters name communities. It runs in
// the hub process, always: communities that are enforced only where a flag is set would be none where somebody forgot it.
//
//	MemberClusters ─ internal/communities ─► one RoleBinding in each member's namespace, for those who may read it
//	                                       ─► the ClusterRole of all members, without the records
//
// A member's right to read a namespace stands in one RoleBinding, so a change of communities is one write for each namespace, and
// takes no right away that stays. Only where the set begins or ceases to have communities does a right move from the ClusterRole to the
// RoleBindings or back: what gives it is written first, and what took its place goes a moment later, when API servers know.
//
// A set without communities has one ClusterRole for all and no RoleBinding of this package.
package peers
