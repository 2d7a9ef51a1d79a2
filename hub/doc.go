// Package hub runs next to the hub's API server and watches the members' heartbeats. It writes what it finds into the status of
// their MemberClusters, which every member mirrors: when a cluster falls silent one object changes, and the DNS servers rank
// that cluster's endpoints behind the others', or leave them out.
//
// Package liveness decides, from observations and a clock that are passed in; status.go puts a decision into words; the
// reconciler fetches and writes. Nothing else depends on this process: while it is down every MemberCluster stays as it is, and
// names are answered as before.
package hub
