package clusterset_test

import (
	"fmt"
	"testing"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/kube"
)

// The live tests change objects on a real API server while a CoreDNS keeps running. They share one control
// plane, because starting one takes longer than everything else. Each test has its own namespace and clusters.

func TestLiveKubernetes(t *testing.T) {
	control := kube.Start(t)
	control.InstallMCS(t)
	control.Apply(t, crds.All()...)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *kube.ControlPlane)
	}{
		{"answers follow objects", liveAnswersFollowObjects},
		{"a lost watch changes no answer and loses no update", liveLostWatches},
		{"server blocks share one set of watches", liveSharedWatches},
		{"missing rights are SERVFAIL until they are granted", liveMissingRights},
		{"ten reloads leave no goroutine behind", liveReloads},
		{"a failed reload leaves the old server answering and nothing else", liveFailedReloads},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, control) })
	}
}

// liveCorefile has one server block with both dialects, for a server in cluster here, zone a, region r1.
func liveCorefile(kubeconfig string) string {
	return withSource(`.:0 {
    bind 127.0.0.1
    clusterset clusterset.local svc.global {
        location here a r1
    }
}
`, "kubeconfig "+kubeconfig)
}

// Rules D40 and D51 of docs/spec/data-path.md, among others.
func liveAnswersFollowObjects(t *testing.T, control *kube.ControlPlane) {
	s := startLive(t, liveCorefile(control.Kubeconfig()))
	const (
		web    = "A web.follow.svc.clusterset.local"
		db     = "A db.follow.svc.clusterset.local"
		dbSRV  = "SRV _http._tcp.db.follow.svc.clusterset.local"
		moved  = "A moved.follow.svc.clusterset.local"
		fabdns = "A nginx.follow.svc.global"
	)
	var (
		near  = func(addrs ...string) []byte { return sliceYAML("follow", "db-near", "db", "follow-near", addrs...) }
		far   = sliceYAML("follow", "db-far", "db", "follow-far", "10.2.0.1")
		extra = sliceYAML("follow", "db-extra", "db", "follow-near", "10.1.0.3")
	)
	apply := func(manifests ...[]byte) func() { return func() { control.Apply(t, manifests...) } }
	status := func(manifest []byte) func() { return func() { control.ApplyStatus(t, manifest) } }
	remove := func(manifest []byte) func() { return func() { control.Delete(t, manifest) } }
	control.Apply(t, namespaceYAML("follow"),
		memberYAML("follow-near", "a", "r1", false), memberYAML("follow-far", "z", "r2", false))
	s.expect(t, map[string]string{web: "NXDOMAIN", db: "NXDOMAIN", fabdns: "NXDOMAIN"})

	last := liveSerial(t, s)
	for _, step := range []struct {
		name string
		do   func()
		want map[string]string
	}{
		{"a ServiceImport without an address", apply(importYAML("follow", "web", "ClusterSetIP")), map[string]string{web: "NODATA"}},
		{"gets one", apply(importYAML("follow", "web", "ClusterSetIP", "10.0.0.1")), map[string]string{web: "10.0.0.1"}},
		{"a slice", apply(importYAML("follow", "db", "Headless"), far), map[string]string{db: "10.2.0.1"}},
		{"a nearer slice", apply(near("10.1.0.1", "10.1.0.2")), map[string]string{db: "10.1.0.1, 10.1.0.2"}},
		{"a second slice of the same cluster", apply(extra), map[string]string{
			db:    "10.1.0.1, 10.1.0.2, 10.1.0.3",
			dbSRV: "0 33 8080 10-1-0-1.follow-near.db.follow.svc.clusterset.local., 0 33 8080 10-1-0-2.follow-near.db.follow.svc.clusterset.local., 0 33 8080 10-1-0-3.follow-near.db.follow.svc.clusterset.local.",
		}},
		{"an endpoint is no longer ready", apply(near("10.1.0.1", "!10.1.0.2")), map[string]string{db: "10.1.0.1, 10.1.0.3"}},
		{"the second slice goes", remove(extra), map[string]string{db: "10.1.0.1"}},
		{"the cluster is Suspect", status(memberStatusYAML("follow-near", "Suspect")), map[string]string{db: "10.2.0.1"}},
		{"the near one is back", status(memberStatusYAML("follow-near", "Ready")), map[string]string{db: "10.1.0.1"}},
		{"the near one is drained", apply(memberYAML("follow-near", "a", "r1", true)), map[string]string{db: "10.2.0.1"}},
		{"and no longer", apply(memberYAML("follow-near", "a", "r1", false)), map[string]string{db: "10.1.0.1"}},
		{"the near one can't be reached", apply(reachabilityYAML("follow-near")), map[string]string{db: "10.2.0.1"}},
		{"nobody says what can be reached", remove(reachabilityYAML()), map[string]string{db: "10.1.0.1"}},
		{
			"a slice goes over to another service", apply(importYAML("follow", "moved", "Headless"), sliceYAML("follow", "db-far", "moved", "follow-far", "10.2.0.1")),
			map[string]string{db: "10.1.0.1", moved: "10.2.0.1"},
		},
		{"no endpoint is ready", apply(near("!10.1.0.1", "!10.1.0.2")), map[string]string{db: "NXDOMAIN", moved: "10.2.0.1"}},
		{"a GlobalService", apply(globalYAML("follow", "nginx", "10.3.0.1")), map[string]string{fabdns: "10.3.0.1"}},
		{"changes its addresses", apply(globalYAML("follow", "nginx", "10.3.0.2", "10.3.0.3")), map[string]string{fabdns: "10.3.0.2, 10.3.0.3"}},
		{"goes", remove(globalYAML("follow", "nginx")), map[string]string{fabdns: "NXDOMAIN"}},
		{"the ServiceImport becomes headless", apply(sliceYAML("follow", "web-near", "web", "follow-near", "10.1.0.9"), importYAML("follow", "web", "Headless")), map[string]string{web: "10.1.0.9"}},
		{"and goes", remove(importYAML("follow", "web", "Headless")), map[string]string{web: "NXDOMAIN"}},
	} {
		t.Log(step.name)
		step.do()
		s.expect(t, step.want)
		// Secondaries and caches of the zone only check the serial.
		serial := liveSerial(t, s)
		if int32(serial-last) <= 0 { //nolint:gosec // serial number arithmetic (RFC 1982)
			t.Errorf("%s: the serial went from %d to %d though an answer changed", step.name, last, serial)
		}
		last = serial
	}
}

// liveSerial returns the SOA serial, which both zones share.
func liveSerial(t *testing.T, s *liveServer) uint32 {
	t.Helper()
	soa, err := s.ask("SOA clusterset.local")
	if err != nil {
		t.Fatal(err)
	}
	var ns, mbox string
	var serial uint32
	if _, err := fmt.Sscan(soa, &ns, &mbox, &serial); err != nil {
		t.Fatalf("%s: %v", soa, err)
	}
	return serial
}

// liveMissingRights starts a server whose identity has no permissions, and grants the ones that its log asks for, one rule at
// a time. Until the server has them all, it can't tell which names don't exist.
func liveMissingRights(t *testing.T, control *kube.ControlPlane) {
	lines := recordLog(t)
	control.Apply(t, namespaceYAML("rights"), importYAML("rights", "web", "ClusterSetIP", "10.0.0.1"))
	kubeconfig, err := control.KubeconfigFor("dns-without-rights")
	if err != nil {
		t.Fatal(err)
	}
	s := startLive(t, fmt.Sprintf(`.:0 {
    bind 127.0.0.1
    clusterset clusterset.local svc.global {
        kubeconfig %s
        startup_timeout 100ms
    }
}
`, kubeconfig))
	const web, missing = "A web.rights.svc.clusterset.local", "A missing.rights.svc.clusterset.local"
	lines.expect(t, "not synced after 100ms", "SERVFAIL")

	// The binding is complete from the start. Only the role's rules are added one by one.
	control.Apply(t, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: dns-without-rights}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: dns-without-rights}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dns-without-rights}]
`))
	stop := s.askAlong(t, map[string][]string{web: {"SERVFAIL"}, missing: {"SERVFAIL"}})
	rules := ""
	for i, r := range []struct{ group, resource, kind string }{
		{"multicluster.x-k8s.io", "serviceimports", "ServiceImport"},
		{"discovery.k8s.io", "endpointslices", "EndpointSlice"},
		{"dns.fabedge.io", "globalservices", "GlobalService"},
		{"clusterset.dev", "memberclusters", "MemberCluster"},
	} {
		lines.expect(t, r.kind, "forbidden", "grant get, list and watch on "+r.resource+"."+r.group)
		expectMetric(t, 0, "source_synced", "source", "kubernetes", "kind", r.kind)
		if metric("source_errors_total", "source", "kubernetes", "kind", r.kind) == 0 {
			t.Errorf("the errors of %s are not counted", r.kind)
		}
		if i == 3 {
			stop() // the last rule makes it answer
		}
		rules += fmt.Sprintf("  - {apiGroups: [%s], resources: [%s], verbs: [get, list, watch]}\n", r.group, r.resource)
		control.Apply(t, []byte("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: dns-without-rights}\nrules:\n"+rules))
		expectMetric(t, 1, "source_synced", "source", "kubernetes", "kind", r.kind)
	}
	s.expect(t, map[string]string{web: "10.0.0.1", missing: "NXDOMAIN"})
}
