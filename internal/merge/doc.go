// Package merge merges several clusters' exports of a service into one (KEP-1645, "Constraints and Conflict
// Resolution").
//
// It sits between the hub's records, as values of package door, and their readers. The importer of each member turns a Resolved into a
// ServiceImport; the exporter of each member computes the same Resolved from the same records and writes its conflicts
// to its own ServiceExport. No aggregate object has to be kept up to date: the merge is a pure function that doesn't
// depend on the order of its input, so every member gets the same result.
//
//	door.Export    ─ Exports ─► Export ─ Resolve ─► Resolved, with its Conflicts
//	door.Endpoints ─ Endpoints ─► those that can be imported
package merge
