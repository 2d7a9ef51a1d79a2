// Package importer turns the members' exports on the hub into the objects that one member's DNS and kube-proxy read. It runs in
// every member, exporting or not, and sits between the hub and the plugin:
//
//	hub: ExportedService, ExportedEndpoints, MemberCluster
//	  ─ effective.Effective (pure)    ─► the records to use: these, and those of parts that stay without one
//	  ─ merge.Sanitize, merge.Resolve ─► what the service is
//	  ─ desired.Compute (pure)        ─► ServiceImport, EndpointSlices, derived Service, GlobalService
//	  ─ reconciler                    ─► the local API server
//
// It is level-triggered: an event enqueues a (namespace, name), and the worker makes that service's objects match the records
// in the hub's cache at that moment. It writes only what differs.
//
// Two rules keep names alive:
//   - Workers start only after the hub's caches have synced. An empty list on a cold start would remove every import. Until
//     then, and while the hub is unreachable, nothing changes except this cluster's own addresses, so that a hub that is down
//     doesn't hold up a rollout (offline).
//   - That a record is missing says nothing (effective.Effective): an un-export is a record too. Our EndpointSlices store the records that they were
//     made of, which are used instead, so that everything else continues.
//
// A third protects other people's objects: only objects with api.LabelManagedBy and our value are ever changed.
package importer
