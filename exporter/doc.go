// Package exporter runs in each member and writes the member's exports to the hub: for every ServiceExport an ExportedService,
// and the endpoints of its Service as ExportedEndpoints, in the member's own namespace there (KEP-1645, "Exporting Services").
// It sits between the member's Services, EndpointSlices and ServiceExports, which it watches, and the importers of all members,
// which watch its records. It also writes the conditions of the member's ServiceExports, and the heartbeat that tells the hub
// that the records are being kept up to date.
//
// desired.go and the files next to it that the reconciler calls are pure: objects in, objects out. The reconciler is keyed by
// the service's namespace and name and recomputes everything for a key from the current state of both caches, the member's and
// the hub's. Nothing depends on which event enqueued the key, or on what an earlier process did.
package exporter
