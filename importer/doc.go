// Package importer turns the members' exports on the hub into the objects that one member's DNS and kube-proxy read. It runs in
// every member, exporting or not, and sits between the hub and the plugin:
//
//	hub: ExportedService, ExportedEndpoints, MemberCluster
//	  ─ door.CompactService, door.CompactEndpoints ─► values, bounded and sanitized
//	  ─ retention.Effective (pure)                 ─► the values to use: these, and what is kept although the hub no longer has it
//	  ─ desired.Compute (pure; package merge)      ─► ServiceImport, EndpointSlices, derived Service, GlobalService
//	  ─ reconciler                                 ─► the local API server
//
// It is level-triggered: an event enqueues a (namespace, name), and the worker makes that service's objects match the records
// in the hub's cache at that moment. It writes only what differs.
//
// Three rules keep names alive:
//   - Workers start only after the hub's caches have synced. An empty list on a cold start would remove every import. Until
//     then, and while the hub is unreachable, nothing changes except this cluster's own addresses, so that a hub that is down
//     doesn't hold up a rollout (offline).
//   - Nothing is deleted, and no cluster is dropped from a service, unless the hub answers at that moment, knows this member
//     and has this member's exports (retention.HubTrust). A hub that came back empty deletes nothing.
//   - What is missing on a hub that knows us was either withdrawn or lost (retention.Effective). What was lost is kept for a while: our
//     EndpointSlices store the records that they were made of, which are used instead, so that everything else continues.
//
// A fourth protects other people's objects: only objects with api.LabelManagedBy and our value are ever changed.
package importer
