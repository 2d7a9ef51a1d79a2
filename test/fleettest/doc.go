// Package fleettest runs the fleets of test/fleet, each a hub and its members, in tests: errors fail the test, waits poll, and
// everything is cleaned up. The packages of tests that need whole fleets build on it: test/e2e, test/random, test/gateway and
// test/chaos. Their TestMain is Main.
//
// A test asks for a fleet of its own, or for one that several tests of its package share:
//
//	f := fleettest.New(t, fleettest.Spec{Name: "xicheng", Zone: "beijing"}, fleettest.Spec{Name: "minhang"})
//	ns := f.Namespace("web") // a new namespace in every member, for this test
//	f.Member("xicheng").Apply(manifests)
//	f.Member("minhang").DNS.Eventually("web."+ns+".svc.global", "A", f.Member("xicheng").ClusterIP(ns, "web", corev1.IPv4Protocol))
//
// Fleets are shared where a namespace isolates tests well enough, because a control plane costs seconds and 255 MB. Tests
// that share a fleet run one after the other, and leave it as they found it. Tests with different fleets run at the same time,
// at most two in each package, and only one of these with a fleet of its own.
//
// Every process has only the rights that it has in production. On the hub, the agents have the rights that `clusterset join`
// gave them; in their own clusters, those of test/fleet/rbac/member.yaml. CoreDNS has the rights of dns.yaml, and the hub
// process those of hub.yaml.
//
// No test depends on speed. Tests poll for results, with deadlines that every working machine meets. They log durations (-v)
// and don't judge them.
package fleettest
