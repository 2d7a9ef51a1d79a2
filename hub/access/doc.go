// Package access defines what a member has on the hub: its namespace, its account, and what that account may do.
//
// `clusterset join` creates these objects for a cluster. The hub process creates the same for a MemberCluster that someone applied, and narrows
// the rights where MemberClusters name communities.
package access
