// Package console is the server of `clusterset console`: a read-only page about a set of clusters, on 127.0.0.1.
//
// It computes what the page shows and makes no decisions of its own: cli/view determines a cluster's state, cli/preview which
// endpoints each place uses and what changes would do, and cli/explain why. It reads no API server: cli/console/live does, and
// passes on what it has read. guard.go decides who may use it.
//
//	records, heartbeats, sources ─ server.go ─► what is shown
//	GET /             the page's files, below web ─ web.go
//	GET /api/map      Map        the state of each cluster, and of the sources ─ map.go
//	GET /api/services Services   a page of the services that match ─ services.go, set.go
//	GET /api/problems Problems   what is wrong, the most urgent first ─ problems.go, findings.go
//	GET /api/service  Service    what each place uses of one service ─ service.go
//	GET /api/endpoints Endpoints why, for one place: every endpoint with the verdict on it ─ endpoints.go
//	GET /api/whatif   WhatIf     the services that changes affect, in the whole set ─ whatif.go
//	GET /api/links    Links      what leads from each cluster to each, and who reaches whom; links.csv is the same as a table ─ links.go
//	GET /api/history  History    what happened, the newest first ─ history.go
//	GET /api/traffic  Traffic    what the DNS servers of one cluster answer ─ traffic.go
//	GET /api/events              server-sent events that say when to fetch again ─ events.go
//
// The parameter changes of map, service, endpoints, links and whatif is a JSON array of preview.Change. The answers then have both the current
// state and the state after the changes. Parameters: service=NAMESPACE/NAME; place and from=CLUSTER/ZONE/REGION, - for an unknown part; zone=mcs or global;
// context=NAME, for traffic; for services: q, namespace, cluster, type, conflicts, policy, empty, sort, desc,
// offset, limit.
//
// Errors are {"error": "…"} with status 400 (the parameters), 404 (no such service) or 502 (an API server).
package console
