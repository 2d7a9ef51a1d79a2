// Package e2e runs whole fleets: a hub and its members, each a real etcd and kube-apiserver (test/kube), the real clusterset
// and coredns binaries as processes beside them, and questions over real UDP. It holds the tests of what only shows where
// all parts meet; what one part does is tested beside that part.
//
// A test asks for a fleet and describes the state it wants:
//
//	f := cities(t)                       // the shared fleet; newFleet(t, clusterSpec{…}, …) makes one of its own
//	ns := f.namespace("web")             // a namespace of this test's in every member
//	f.member("xicheng").apply(exported(ns, "web", httpPort))
//	f.member("minhang").dns.eventually("web."+ns+".svc.global", "A", f.member("xicheng").clusterIP(ns, "web", v4))
//
// Fleets are shared where a namespace is isolation enough, because a control plane costs seconds and 255 MB; what kills
// processes or API servers has "outages", or one of its own. Tests that share a fleet run one after the other, and leave it as
// they found it. Tests with different fleets run at the same time.
//
// With CLUSTERSET_LONG=1 random runs are longer and of another seed each time, and so are others that repeat themselves.
//
// Every process has only the rights it is to have in production: the agents on the hub those that `clusterset join` gave
// them, in their own clusters those of test/fleet/rbac/member.yaml; CoreDNS those of dns.yaml; the hub process those of
// hub.yaml.
//
// Nothing here depends on speed. What is to come is polled for, with deadlines no working machine needs; how long it took
// is logged (-v), not judged.
package e2e
