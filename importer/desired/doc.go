// Package desired is the pure middle of the importer: what the hub's records of a service, and what this cluster knows of it,
// make of its ServiceImport, EndpointSlices, derived Service and GlobalService. Values in, values out: package importer fetches
// them and writes what differs.
package desired
