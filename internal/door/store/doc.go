// Package store is what an agent knows of its hub: the records as compact values (internal/door), the MemberClusters, and whether the hub
// answers.
//
// client-go's Reflectors fill it, each with one kind: of all namespaces or, in a set with communities, of the namespace of each cluster that this
// one shares a community with. API objects are dropped as they are decoded, except MemberClusters and this cluster's own records. Subscribers get
// the keys of what changed, and read the state as it is then. What is read here must not be changed.
//
// If the clusters that are read change, or the hub went back to a backup, other Reflectors begin, and what they list takes the place of what is
// here. A value equal to the one that is known keeps the known one's pointer, so a pointer is a version, and a list takes little memory.
package store
