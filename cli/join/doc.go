// Package join makes a cluster a member of a hub, and undoes that: it implements `clusterset join` and `leave`.
//
// A membership is a MemberCluster, a namespace for the member, and a ServiceAccount in it that may write our records and one
// Lease there and read our API group and the members' Leases everywhere, and nothing else. The member has a token of that account, bound to it and
// expiring, in a kubeconfig in a Secret. Its agent renews the token and the Secret long before it expires (package connect).
// Deleting the account revokes all tokens at once.
package join
