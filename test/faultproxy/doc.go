// Package faultproxy is a proxy between a test's client and server that imitates the faults of networks and API servers. It
// needs no privileges: clients get the proxy's address instead of the server's.
//
// A [Link] is a network connection. It forwards bytes, can be cut in one direction or both, and can be slow or lossy.
//
// An [API] answers in place of a Kubernetes API server. It returns chosen errors, and ends watches in all the ways in which
// watches can end. It has the server's own certificate, so a Link can switch to it at any time.
package faultproxy
