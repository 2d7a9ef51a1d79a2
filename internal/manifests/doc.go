// Package manifests reads the objects that DNS serves from YAML and JSON files: ServiceImport, EndpointSlice, GlobalService
// and MemberCluster, as kubectl would apply them.
//
// It sits in front of internal/index. Whoever answers from a directory, and whoever explains what would be answered from it
// (`clusterset explain --manifests`), have to read it alike, so that both read it here.
package manifests
