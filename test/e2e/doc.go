// Package e2e runs whole fleets (test/fleettest): a hub and its members, each with a real etcd and kube-apiserver (test/kube), and
// the real clusterset and coredns binaries as processes beside them. It asks questions over real UDP. Its tests need all parts
// together; the tests of one part are in that part's package. Random operations are in test/random, faults in test/chaos.
//
// A test asks for a fleet and describes the state it wants:
//
//	f := cities(t)                       // the shared fleet; fleettest.New(t, fleettest.Spec{…}, …) starts a new one
//	ns := f.Namespace("web")             // a new namespace in every member, for this test
//	f.Member("xicheng").Apply(exported(ns, "web", httpPort))
//	f.Member("minhang").DNS.Eventually("web."+ns+".svc.global", "A", f.Member("xicheng").ClusterIP(ns, "web", v4))
//
// Tests that kill processes or API servers use "outages", or a fleet of their own.
//
// With CLUSTERSET_LONG=1, tests that repeat their steps repeat them more often.
package e2e
