// Package snapshotfile keeps what a DNS server knows in a file, for the server that starts while its API server is away.
//
// The plugin writes a State from the objects of its index.Index and reads one back when it starts. A file is
//
//	clusterset-dns-snapshot 1\n        what it is, and the version of all that follows
//	CBOR items (RFC 8742)              a header, the objects, an end with their number
//	SHA-256 of all before, 32 bytes
//
// and is read as if an enemy had written it: its size, the size of each item and of each list are bounded, and every name
// and address has to be one that the API's own checks would have let through.
package snapshotfile
