// Package faultproxy is a proxy between a test's client and server that imitates the faults of networks and API servers. It
// needs no privileges: clients get the proxy's address in place of the server's.
// A [Link] is a cable. It carries bytes, can be cut, in both directions or in one, and can be slow or lossy.
// A [Link] is a network connection. It forwards bytes, can be cut in one direction or both, and can be slow or lossy.
// An [API] answers for a Kubernetes API server, with errors of its choice, and ends watches in each of the ways in which
// watches end. With the server's own certificate it can take the far end of a Link at any time.
package faultproxy
