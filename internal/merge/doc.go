// Package merge makes one service out of what several clusters say about it (KEP-1645, "Constraints and Conflict
// Resolution").
//
// It sits between the hub's records and everyone who reads them. The importer of each member turns a Resolved into a
// ServiceImport; the exporter of each member computes the same Resolved from the same records and writes its conflicts on
// its own ServiceExport. There is no aggregate object that somebody would have to keep up to date: the merge is a pure
// function whose result does not depend on the order of its input, so everyone comes to the same.
//
//	ExportedService   ─ Sanitize ─────────► Export ─ Resolve ─► Resolved, with its Conflicts
//	ExportedEndpoints ─ SanitizeEndpoints ─► the same, as far as it can be imported
package merge
