// Package manifests reads the objects that DNS serves from YAML and JSON files: ServiceImport, EndpointSlice, GlobalService,
// MemberCluster and Reachability, as kubectl would apply them.
//
// It sits in front of internal/index. A server that answers from a directory and `clusterset explain --manifests`,
// which explains those answers, must read it in the same way, so both use this package.
package manifests
