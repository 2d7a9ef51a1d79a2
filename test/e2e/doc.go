// Package e2e runs whole fleets: a hub and its members, each a real etcd and kube-apiserver (test/kube), with the real
// clusterset and coredns binaries as processes beside them, and asks questions over real UDP. It holds the tests that need
// all parts together; the tests of one part are in its package.
//
// A test asks for a fleet and describes the state it wants:
//
//	f := cities(t)                       // the shared fleet; newFleet(t, clusterSpec{…}, …) makes one of its own
//	ns := f.namespace("web")             // a namespace of this test's in every member
//	f.member("xicheng").apply(exported(ns, "web", httpPort))
//	f.member("minhang").dns.eventually("web."+ns+".svc.global", "A", f.member("xicheng").clusterIP(ns, "web", v4))
//
// Fleets are shared where a namespace isolates tests well enough, because a control plane costs seconds and 255 MB. Tests
// that kill processes or API servers use "outages", or a fleet of their own. Tests that share a fleet run one after the
// other, and leave it as they found it. Tests with different fleets run at the same time.
//
// With CLUSTERSET_LONG=1 random runs are longer, with a different seed each time, and so are other tests that repeat their
// steps.
//
// Every process has only the rights that it has in production: on the hub, the agents have those that `clusterset join` gave
// them; in their own clusters, those of test/fleet/rbac/member.yaml. CoreDNS has those of dns.yaml, and the hub process
// those of hub.yaml.
//
// No test depends on speed. Results are polled for, with deadlines that every working machine meets; durations are logged
// (-v), not judged.
package e2e
