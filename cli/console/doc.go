// Package console is the server of `clusterset console`: a read-only page about a set of clusters, on 127.0.0.1.
//
// It computes what the page shows and makes no decisions of its own: cli/view determines a cluster's state, cli/preview which
// endpoints each place uses and what changes would do, and cli/explain why. It reads no API server: cli/console/live does, and
// passes on what it has read. guard.go decides who may use it, and server.go keeps what is shown.
//
// GET / and below are the page's files, below web, which ask again every few seconds for GET /api/map, services, problems,
// service, endpoints, whatif and links.
//
// The parameter changes of map, service, endpoints, links and whatif is a JSON array of preview.Change. The answers then have both the current
// state and the state after the changes. Parameters: service=NAMESPACE/NAME; place and from=CLUSTER/ZONE/REGION, - for an unknown part; zone=mcs or global;
// for services: q, cluster, type, conflicts, policy, empty, sort, desc, offset.
//
// Errors are {"error": "…"} with status 400.
package console
