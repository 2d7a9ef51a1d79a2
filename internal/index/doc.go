// Package index turns API objects into an immutable Snapshot. The Snapshot answers "which addresses does this service
// have, seen from this server's location" without a lock or an allocation: everything is decided when objects change.
//
// It sits between the plugin's sources, which put objects in as they change, and the plugin's handler, which reads. The
// flow:
//
//	API object ─ convert.go ─► ServiceImport, EndpointSlice, GlobalService, Cluster, Reachability   (compact, checked)
//	           ─ index.go   ─► the inputs of one service change
//	           ─ rank.go    ─► its Set: the endpoints of the best tier, hosts, ports
//	           ─ tree.go    ─► a new Snapshot that shares all other services with the last
//	a name     ─ lookup.go  ─► what stands at it
//	a type     ─ answer.go  ─► the records of a reply, which the plugin chain and the express path write each in its own form
//
// The package is pure: it starts no goroutine, reads only the clock it is given, and knows neither the wire format of
// DNS nor a Kubernetes client.
package index
