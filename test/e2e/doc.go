// Package e2e runs whole fleets (test/fleettest): a hub and its members, each with a real etcd and kube-apiserver (test/kube), and the real
// clusterset and coredns binaries as processes beside them. It asks questions over real UDP. Its tests need all parts together; the tests of one
// part are in that part's package. Random operations are in test/random, faults in test/chaos.
//
// Tests share the fleet "cities". Those that kill processes or API servers share "outages".
package e2e
