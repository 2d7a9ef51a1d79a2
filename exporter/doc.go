// Package exporter runs in each member and puts on the hub what the member exports: for every ServiceExport an
// ExportedService, and the endpoints of its Service as ExportedEndpoints, in the member's own namespace there (KEP-1645,
// "Exporting Services"). It stands between the member's Services, EndpointSlices and ServiceExports, which it watches, and
// the importers of all members, which watch its records. It also keeps the conditions of the member's ServiceExports, and
// the heartbeat by which the hub knows that the records are kept.
//
// desired.go and the files beside it that the reconciler calls are pure: objects in, objects out. The reconciler is keyed
// by the service's namespace and name and recomputes everything of a key from what exists now, in the caches of the
// member and of the hub. Nothing it does depends on which event brought the key, or on what an earlier process did.
package exporter
