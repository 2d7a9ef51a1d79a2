package cli

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// The rules are of docs/spec/control-plane.md.

// dns enable changes the cluster's DNS, waits until its pods answer, and dns disable undoes it, as testdata/dns.txt shows (C86, C87).
func TestClusterDNS(t *testing.T) {
	plane := kube.Start(t)
	pods := &atomic.Pointer[string]{}
	pods.Store(new(startTCP(t, "nothing.")))
	if err := plane.Kubelet(t.Context(), "node", func(string) string { return *pods.Load() }); err != nil {
		t.Fatal(err)
	}
	plane.Apply(t, manifest(t, "dns"))
	plane.ApplyStatus(t, []byte("apiVersion: v1\nkind: Pod\nmetadata: {namespace: kube-system, name: coredns-1}\nstatus: {conditions: [{type: Ready, status: 'True'}]}"))
	var all strings.Builder
	run := func(want int, command string, args ...string) {
		t.Helper()
		code, stdout, stderr := cli(t, append(append(strings.Fields(command), "--zones", "clusterset.local", "--kubeconfig", plane.Kubeconfig()), args...)...)
		if code != want {
			t.Errorf("%s: exit code %d\n%s%s", command, code, stdout, stderr)
		}
		all.WriteString("$ clusterset " + command + "\n" + stdout + stderr + "\n")
	}
	run(0, "dns show")
	run(0, "dns enable --dry-run")
	run(exitFailure, "dns enable --timeout 3s") // nothing was written yet, and the pod doesn't answer yet
	pods.Store(new(startTCP(t, "dns-version.clusterset.local.")))
	run(0, "dns enable")
	run(0, "dns enable", "--dns", startDNS(t, "dns-version.clusterset.local."))
	run(0, "dns show")
	code, stdout, stderr := cli(t, "join", "beijing", "--install-crds", "--dns", "--hub-kubeconfig", plane.Kubeconfig(), "--kubeconfig", plane.Kubeconfig())
	if code != 0 || !strings.Contains(stdout, "+clusterset.local:53 svc.global:53 {\n") {
		t.Errorf("join --dns: exit code %d\n%s%s", code, stdout, stderr)
	}
	plane.Delete(t, []byte("apiVersion: v1\nkind: Service\nmetadata: {namespace: clusterset-system, name: clusterset-dns}"))
	run(0, "dns disable")
	run(exitFailure, "dns enable")
	run(0, "dns disable")
	plane.Apply(t, []byte(strings.ReplaceAll(string(manifest(t, "dns")), "    import", "    clusterset.local {\n      forward . 192.0.2.1\n    }\n    import")))
	run(exitFailure, "dns enable")
	run(0, "dns disable --dry-run")
	lookedAt{hub: plane, member: plane}.same(t, "dns.txt", strings.ReplaceAll(all.String(), plane.Kubeconfig(), "MEMBER"))
}

// startTCP starts a DNS server with the version record of one name, over TCP.
func startTCP(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{Listener: l, Handler: versionOf(name)}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}
