// Package record makes the hub's records of a cluster's own objects. The exporter writes them; the importer of the same cluster
// reads them past the hub, which may be away or behind.
package record
