// Package importer turns what the members export to the hub into objects that one member's DNS and kube-proxy read. It runs
// in every member, exporting or not, and stands between the hub and the plugin:
//
//	hub: ExportedService, ExportedEndpoints, MemberCluster
//	  ─ merge.Sanitize, merge.Resolve ─► what the service is
//	  ─ desired.Compute (pure)        ─► ServiceImport, EndpointSlices, derived Service, GlobalService
//	  ─ hold.Decide, hold.Retain      ─► what of them stays though the hub has it no more
//	  ─ reconciler                    ─► the local API server
//
// It is level-triggered: an event enqueues a (namespace, name), and the worker makes that service's objects what the records
// in the hub's cache come to at that moment. Where they are that already it writes nothing.
//
// Three rules keep names alive:
//   - Workers start when the caches of the hub have synced, not before. An empty list on a cold start would remove every
//     import. Until then, and while the hub is away, everything stays as it is, but for what this cluster's own Services say of
//     its own addresses: a hub that is away mustn't hold up a rollout (standIn).
//   - Nothing is deleted, and no cluster is dropped from a service, unless the hub answers at that moment, knows this member
//     and has what this member exports (hold.Guard). A hub that came back empty deletes nothing.
//   - What is missing on a hub that knows us was either given up or lost (hold.Hold). What was lost is kept, for a while: its
//     records are made up from our own objects (hold.Retain), so that everything else goes on.
//
// And one keeps others' objects whole: only what carries api.LabelManagedBy with our value is ever changed.
package importer
