// Package statefile saves a DNS server's objects to a file, for a server that starts while its API server is down.
//
// The plugin writes a State from the objects of its index.Index and reads one when it starts. The file is a manifest: one
// document with one object per line, which people and `clusterset explain --manifests FILE` can read:
//
//	{"apiVersion":"v1","kind":"List","state":{"version":1,…},"items":[
//	{"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster",…},
//	{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport",…}
//	],"sha256":"…"}
//
// The checksum covers all lines before its own. A truncated or modified file is not used at all: with half a state, existing
// names would get NXDOMAIN. internal/manifests reads and checks the objects like those of any other manifest. The content is not
// trusted: size and memory are bounded.
package statefile
