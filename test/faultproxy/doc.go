// Package faultproxy stands between a client and a server of a test and does to them what networks and API servers do to
// their clients in bad times. It needs no privileges: clients are given the proxy's address in place of the server's.
//
// A [Link] is a cable. It carries bytes, can be cut, in both directions or in one, and can be slow or lossy.
//
// An [API] answers for a Kubernetes API server, with errors of its choice, and ends watches in each of the ways in which
// watches end. With the server's own certificate it can take the far end of a Link at any time.
package faultproxy
