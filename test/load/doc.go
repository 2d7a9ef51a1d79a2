// Package load has the tests that put a real coredns under load and overload it: while objects change and the server reloads
// (TestLoad), with far more packets than it can answer (TestFlood), with ten thousand TCP connections (TestManyConnections) and
// with clients that send queries and never read the answers (TestSlowReaders).
//
// No test asserts a speed. Each test first measures how many answers the same clients get from an idle server, and its load is
// relative to that. `make load` runs the tests for longer and prints their figures.
package load
