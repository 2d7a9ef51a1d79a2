// Package fleet runs a hub and its members on one machine: real control planes (test/kube) and the real clusterset and coredns
// binaries as processes beside them. It is for what has no test to fail: the demo and benchsync. The end-to-end tests build
// fleets of their own of its programs.
//
// Whatever it starts ends with us, even if we are killed, and each wait is bounded and says what it waited for.
package fleet
