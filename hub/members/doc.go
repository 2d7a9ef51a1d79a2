// Package members makes clusters members by their MemberClusters alone: whoever may write these on the hub, a person with kubectl or a
// GitOps controller, needs no `clusterset join`. It runs in the hub process, where that is switched on, beside the controller that
// watches heartbeats, and neither waits for the other.
//
//	MemberCluster ─ join.Objects, the same as join's ─► namespace, ServiceAccount, Role, RoleBinding; one ClusterRoleBinding for all
//	              ─ handover.next (pure)             ─► a Secret with the agent's kubeconfig, until the first heartbeat
//
// What it makes carries its label or join's. Something of the same name that carries neither is somebody else's: it is not touched,
// and the MemberCluster's condition Joined says so. Taking a member's account and records away, when its MemberCluster is deleted, is
// package hub's part, however the cluster became a member; here goes what only this package makes.
package members
