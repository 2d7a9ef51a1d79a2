// Package desired is the pure middle of the importer. From the hub's records of a service and this cluster's own state it
// computes the service's ServiceImport, EndpointSlices, derived Service and GlobalService. Values in, values out: package
// importer fetches the input and writes the differences.
package desired
