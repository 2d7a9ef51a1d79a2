// Package store is what an agent knows of its hub: the records as compact values (internal/door), the MemberClusters, and whether the hub
// answers.
//
// client-go's Reflectors fill it, each with one kind: of all namespaces or, in a set with communities, of the namespace of each peer. API
// objects are dropped as they are decoded, except MemberClusters and this cluster's own records. Subscribers get the keys of what changed, and
// read the state as it is then. What is read here must not be changed.
//
// A reading is what the clusters of one selection have, with its own maps. Another selection, or a hub that went back to a backup, begins a second
// one, which takes the place of the first when it has been read. A value equal to the one that is known keeps the known one's pointer, so a
// pointer is a version, and two readings take little more memory than one.
package store
