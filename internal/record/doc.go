// Package record computes the hub's records of a cluster's own objects. The exporter writes them. The importer of the same
// cluster computes them itself instead of reading them from the hub, which may be unreachable or behind.
package record
