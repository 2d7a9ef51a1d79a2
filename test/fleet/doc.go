// Package fleet runs a hub and its members on one machine: real control planes (test/kube) and the real clusterset and
// coredns binaries as processes beside them. It needs no testing.TB, so the demo and benchsync use it too. test/fleettest
// adds what only a test needs.
//
// Every process that it starts ends with this process, even if that is killed. Each wait is bounded, and its error names
// what it waited for.
package fleet
