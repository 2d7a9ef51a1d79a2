// Package load holds the tests that put a real coredns under load and beyond it: while objects change and the server reloads
// (TestLoad), with far more packets than it can answer (TestFlood), with ten thousand TCP connections (TestManyConnections)
// and with clients that ask and never read (TestSlowReaders).
//
// No test asserts a speed. Each first measures, in the same run, what the same clients get from an idle server; the load is
// a multiple of that. `make load` runs them for longer and prints their figures.
package load
