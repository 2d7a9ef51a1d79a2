// Package join makes a cluster a member of a hub, and undoes it: what an administrator does with `clusterset join` and `leave`.
//
// A membership is a MemberCluster, a namespace of the member's own, and a ServiceAccount in it that may write our records
// and one Lease there and read our API group everywhere, and nothing else. The member holds a token of that account, bound
// to it and expiring, in a kubeconfig in a Secret; its agent renews the token and the Secret long before that (package connect).
// Deleting the account ends every token at once.
package join
