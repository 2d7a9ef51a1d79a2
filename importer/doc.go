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
// in the hub's store at that moment. It writes only what differs.
//
// Absence says nothing (effective.Effective): an un-export is a record too, our EndpointSlices store the records that they were made of, and before
// the hub has been read all stays as it is, but for this cluster's own addresses. Only objects with api.LabelManagedBy and our value are changed.
package importer
