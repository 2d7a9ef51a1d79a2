// Package hub runs beside the hub's API server and watches the heartbeats of the members. What it finds it writes into the
// status of their MemberClusters, which every member mirrors: one object changes when a cluster falls silent, and the DNS
// servers rank that cluster's endpoints behind the others', or leave them out.
//
// liveness.go decides, from observations and a clock that are handed to it; status.go puts a decision into words; the
// reconciler fetches and writes. Nothing else depends on this process: while it is down every MemberCluster stays as it is,
// and names are answered as before.
package hub
