// Package statefile keeps what a DNS server knows in a file, for the server that starts while its API server is away.
//
// The plugin writes a State from the objects of its index.Index and reads one back when it starts. A file is a manifest, in one
// document and with one object a line, that people and `clusterset explain --manifests FILE` can read:
//
//	{"apiVersion":"v1","kind":"List","state":{"version":2,…},"items":[
//	{"apiVersion":"clusterset.dev/v1alpha1","kind":"MemberCluster",…},
//	{"apiVersion":"multicluster.x-k8s.io/v1beta1","kind":"ServiceImport",…}
//	],"sha256":"…"}
//
// The checksum is that of all lines before its own: a file that was cut off or changed is not used at all, since half a state
// would be names that don't exist. Its objects are read and checked by internal/manifests like those of any other manifest. Size
// and memory are bounded as if an enemy had written the file.
package statefile
