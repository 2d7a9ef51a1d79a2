// Package members makes a cluster a member by its MemberCluster alone: a user with kubectl, or a GitOps controller, creates it, and
// nobody runs `clusterset join`. The controller runs in the hub process if it is enabled. It doesn't wait for the controller that
// watches heartbeats, nor that one for it.
//
//	MemberCluster ─ access.Objects, the same as join's ─► namespace, ServiceAccount, Role, RoleBinding; one ClusterRoleBinding for all
//	              ─ handover.next (pure)             ─► a Secret with the agent's kubeconfig, until the first heartbeat
//
// The objects that it creates have its label or join's. If an object of the same name has neither, the controller doesn't touch it,
// and the MemberCluster's condition Joined says so. When a MemberCluster is deleted, package hub deletes the member's account and
// records, however the cluster became a member.
package members
