package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
	"github.com/clusterset/clusterset/test/kube"
	testprocess "github.com/clusterset/clusterset/test/process"
)

// TestLookingAtASet tests the interactive commands on one hub and one member. The subtests share both, because starting them takes most of
// the time.
func TestLookingAtASet(t *testing.T) {
	s := startLookedAt(t)
	t.Run("status", func(t *testing.T) { testStatus(t, s) })
	t.Run("explain", func(t *testing.T) { testExplain(t, s) })
	t.Run("preview", func(t *testing.T) { testPreview(t, s) })
	t.Run("drain", func(t *testing.T) { testDrain(t, s) })
	t.Run("completion", func(t *testing.T) { testCompletion(t, s) })
	t.Run("doctor", func(t *testing.T) { testDoctor(t, s) })
	t.Run("rights", func(t *testing.T) { testWithoutRights(t, s) })
	t.Run("errors", func(t *testing.T) { testErrors(t, s) })
	t.Run("console", func(t *testing.T) { testConsole(t, s) })
	t.Run("console, hub down", func(t *testing.T) { testConsoleHubDown(t, s) })
	t.Run("hub down", func(t *testing.T) { testHubDown(t, s) })
}

func testStatus(t *testing.T, s lookedAt) {
	for file, args := range map[string][]string{
		"status-local.txt":    {"--kubeconfig", s.member.Kubeconfig()},
		"status-hub.txt":      {"--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.hub.Kubeconfig(), "-o", "wide"},
		"status-agent.txt":    {"--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.agentKubeconfig(t)},
		"status-hub-only.txt": {"--hub-kubeconfig", s.hub.Kubeconfig()},
	} {
		t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
		code, stdout, stderr := cli(t, append([]string{"status"}, args...)...)
		if code != 0 || stderr != "" {
			t.Errorf("status %v: exit code %d, %s", args, code, stderr)
		}
		s.same(t, file, stdout)
	}
	_, stdout, _ := cli(t, "status", "--kubeconfig", s.member.Kubeconfig(), "-o", "json")
	var report view.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Clusters) != 2 || report.Hub.State != view.HubHeard {
		t.Errorf("-o json: %v\n%s", err, stdout)
	}
	fails(t, exitUsage, "want table, wide, json, yaml", "status", "-o", "xml")
	fails(t, exitUsage, "at least 100ms", "status", "--watch", "--interval", "1ms")
	fails(t, exitUsage, `there is no context "nope"; --context can be: default`, "status", "--kubeconfig", s.member.Kubeconfig(), "--context", "nope")

	// --watch shows changes until it is interrupted. An interruption isn't a failure.
	ctx, cancel := context.WithCancel(t.Context())
	var out, stderr2 testprocess.Output
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"status", "--kubeconfig", s.member.Kubeconfig(), "--watch", "--interval", "100ms"}, &out, &stderr2)
	}()
	kube.Eventually(t, func() error {
		if n := strings.Count(out.String(), "CLUSTER"); n < 2 {
			return fmt.Errorf("the table is there %d times, want 2", n)
		}
		return nil
	})
	cancel()
	if code := <-done; code != 0 {
		t.Errorf("--watch: exit code %d, %s", code, stderr2.String())
	}
}

func testExplain(t *testing.T, s lookedAt) {
	member := []string{"--kubeconfig", s.member.Kubeconfig()}
	for file, args := range map[string][]string{
		"explain-headless.txt": {"db.shop.svc.clusterset.local", "--from", "beijing"},
		"explain-other.txt":    {"shop/db", "--from", "-/cn-east-1b/cn-east-1"},
		"explain-here.txt":     {"shop/db"},
		"explain-vip.txt":      {"shop/web", "--hub-kubeconfig", s.hub.Kubeconfig()},
		"explain-vip-of.txt":   {"shop/web", "--from", "shanghai", "--hub-kubeconfig", s.hub.Kubeconfig()},
	} {
		code, stdout, stderr := cli(t, append(append([]string{"explain"}, args...), member...)...)
		if code != 0 || stderr != "" {
			t.Errorf("explain %v: exit code %d, %s", args, code, stderr)
		}
		s.same(t, file, stdout)
	}
	// In a pod a short name is that of the cluster's own Service, and there is none.
	for _, short := range []string{"db.shop", "db.shop.svc"} {
		fails(t, exitFailure, "db.shop.svc.cluster.local. is NXDOMAIN: this cluster has no Service shop/db; clusterset explain shop/db", append(member, "explain", short)...)
	}
	fails(t, exitFailure, "did you mean shop/web?", append(member, "explain", "shop/webs")...)
	fails(t, exitUsage, "isn't the name of a service", append(member, "explain", "a.b.c")...)
	fails(t, exitUsage, "there is no cluster beijng; did you mean beijing?", append(member, "explain", "shop/web", "--from", "beijng")...)
	fails(t, exitUsage, "there is no zone globl; did you mean global?", append(member, "explain", "web.shop.svc.globl")...)
	fails(t, exitFailure, "this cluster has no namespace nowhere", append(member, "explain", "nowhere/nothing")...)
	fails(t, exitUsage, "isn't a place", append(member, "explain", "shop/web", "--from", "a/b/c/d")...)
	fails(t, exitUsage, "unknown tier \"continent\": want one or more of cluster, zone and region", append(member, "explain", "shop/web", "--prefer", "continent")...)
	fails(t, exitUsage, "zone is unknown", append(member, "explain", "shop/web", "--boundary", "zone", "--from", "beijing/-/-")...)
	fails(t, exitUsage, "NAME is missing: a service", "explain")
	fails(t, exitUsage, `unexpected argument "b"`, "explain", "a", "b")
	fails(t, exitUsage, "can't be used together", append(member, "explain", "shop/web", "--manifests", ".")...)
	fails(t, exitUsage, "--manifests", "explain", "shop/web", "--manifests", "nowhere")
	// With the hub's context, chosen by mistake, there are no imported services.
	fails(t, exitFailure, "NXDOMAIN", "explain", "shop/web", "--kubeconfig", s.hub.Kubeconfig())
}

func testDrain(t *testing.T, s lookedAt) {
	hub := []string{"--hub-kubeconfig", s.hub.Kubeconfig()}
	drained := func() bool {
		mc := &clustersetv1alpha1.MemberCluster{}
		if err := s.open(t, s.hub).Get(t.Context(), client.ObjectKey{Name: "beijing"}, mc); err != nil {
			t.Fatal(err)
		}
		if mc.Spec.Zone != "cn-north-1a" {
			t.Errorf("the zone is %q now", mc.Spec.Zone)
		}
		return mc.Spec.Drain
	}
	var all strings.Builder
	for _, step := range []struct {
		command string
		drained bool
	}{{"undrain", false}, {"drain", true}, {"drain", true}, {"undrain", false}} {
		code, stdout, stderr := cli(t, append([]string{step.command, "beijing"}, hub...)...)
		if code != 0 || stderr != "" || drained() != step.drained {
			t.Errorf("%s: exit code %d, drained %v, %s", step.command, code, drained(), stderr)
		}
		all.WriteString("$ clusterset " + step.command + " beijing\n" + stdout)
	}
	s.same(t, "drain.txt", all.String())

	// Drain the last healthy cluster.
	cli(t, append([]string{"drain", "shanghai"}, hub...)...)
	if code, _, stderr := cli(t, append([]string{"drain", "beijing"}, hub...)...); code != 0 || !strings.Contains(stderr, "no other cluster is healthy") {
		t.Errorf("drain of the last: exit code %d, %q", code, stderr)
	}
	for _, name := range []string{"beijing", "shanghai"} {
		cli(t, append([]string{"undrain", name}, hub...)...)
	}

	fails(t, exitUsage, "did you mean beijing?", append(hub, "drain", "bejing")...)
	fails(t, exitUsage, "DNS label", append(hub, "drain", "Beijing!")...)
	fails(t, exitUsage, "--hub-kubeconfig or --hub-context is required", "drain", "beijing")
	fails(t, exitUsage, "CLUSTER is missing", append(hub, "drain")...)
	fails(t, exitFailure, "is a member and not the hub", "drain", "beijing", "--hub-kubeconfig", s.member.Kubeconfig())
}

func testDoctor(t *testing.T, s lookedAt) {
	server := startDNS(t, "dns-version.clusterset.local.")
	code, stdout, stderr := cli(t, "doctor", "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.hub.Kubeconfig(), "--dns", server)
	if code != exitFailure || !strings.Contains(stderr, "2 problems, shown above with their fixes") {
		t.Errorf("doctor: exit code %d, %s", code, stderr)
	}
	s.same(t, "doctor.txt", strings.ReplaceAll(stdout, server, "DNS"))

	// Without the zone that isn't served, doctor finds no problem, also with the agent's account on the hub.
	for _, hub := range []string{s.hub.Kubeconfig(), s.agentKubeconfig(t)} {
		role := "cli"
		if hub != s.hub.Kubeconfig() {
			role = "member"
		}
		code, stdout, _ = cli(t, "doctor", "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", hub, "--dns", server, "--zones", "clusterset.local.", "--for", role)
		if code != 0 || strings.Contains(stdout, "PROBLEM") {
			t.Errorf("doctor --for %s: exit code %d\n%s", role, code, stdout)
		}
	}
	// A server whose Corefile still has the zone global answers svc.global as part of that zone.
	code, stdout, _ = cli(t, "doctor", "--kubeconfig", s.member.Kubeconfig(), "--dns", startDNS(t, "dns-version.global."), "--zones", "Global.")
	if code != exitFailure || !strings.Contains(stdout, "answers for svc.global, as a part of its zone global") {
		t.Errorf("doctor --zones global: exit code %d\n%s", code, stdout)
	}
	// For an account without rights, the output lists the missing rights.
	code, stdout, _ = cli(t, "doctor", "--kubeconfig", s.member.Kubeconfig(), "--as", "system:serviceaccount:dns:clusterset", "--for", "dns", "-o", "json")
	if code != exitFailure || !strings.Contains(stdout, "watch serviceimports.multicluster.x-k8s.io") {
		t.Errorf("doctor --as: exit code %d\n%s", code, stdout)
	}
	// A server that doesn't serve the kinds.
	code, stdout, _ = cli(t, "doctor", "--kubeconfig", s.hub.Kubeconfig())
	if code != exitFailure || !strings.Contains(stdout, "doesn't serve serviceimports.multicluster.x-k8s.io") {
		t.Errorf("doctor on a hub: exit code %d\n%s", code, stdout)
	}
	fails(t, exitUsage, "want cli, dns, member, hub", "doctor", "--for", "world")
	fails(t, exitUsage, "isn't of the form namespace/name", "doctor", "--dns-configmap", "coredns")
	fails(t, exitUsage, "isn't an address", "doctor", "--dns", "a:b:c")
}

func testWithoutRights(t *testing.T, s lookedAt) {
	nobody, err := s.member.KubeconfigFor("nobody")
	if err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailure, `refuses: memberclusters.clusterset.dev is forbidden: User "nobody" cannot list`, "status", "--kubeconfig", nobody)
	fails(t, exitFailure, "clusterset doctor lists what is needed", "explain", "shop/web", "--kubeconfig", nobody)
	// The agent's own account may read from the hub but not drain.
	fails(t, exitFailure, `cannot patch resource "memberclusters"`, "drain", "beijing", "--hub-kubeconfig", s.agentKubeconfig(t))

	// A kubeconfig with the credentials and CA of the member and the address of the hub.
	config, err := os.ReadFile(s.member.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	mixed := filepath.Join(t.TempDir(), "mixed")
	if err := os.WriteFile(mixed, bytes.ReplaceAll(config, []byte(s.member.URL()), []byte(s.hub.URL())), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, exitFailure, "can't be trusted", "status", "--kubeconfig", mixed)
}

func testHubDown(t *testing.T, s lookedAt) {
	s.hub.StopAPIServer() // unless the console's test already has
	fails(t, exitFailure, "the hub at "+s.hub.URL()+" can't be reached", "drain", "beijing", "--hub-kubeconfig", s.hub.Kubeconfig())
	// What this cluster knows is shown all the same.
	code, stdout, stderr := cli(t, "explain", "shop/web", "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.hub.Kubeconfig())
	if code != exitFailure || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "check --hub-kubeconfig") {
		t.Errorf("explain: exit code %d, %s", code, stderr)
	}
	s.same(t, "explain-hub-down.txt", stdout)
	code, stdout, stderr = cli(t, "status", "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.hub.Kubeconfig())
	if code != exitFailure || strings.Count(stderr, "\n") != 1 {
		t.Errorf("status: exit code %d, %s", code, stderr)
	}
	s.same(t, "status-hub-down.txt", stdout)
	if code, stdout, _ := cli(t, "doctor", "--kubeconfig", s.hub.Kubeconfig()); code != exitFailure || !strings.Contains(stdout, "PROBLEM  server: the cluster at") {
		t.Errorf("doctor: exit code %d\n%s", code, stdout)
	}
}

// startDNS starts a DNS server that has a version record at one name, and nothing else.
func startDNS(t *testing.T, name string) string {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if r.Question[0].Name == name {
			m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"1.0.0"}}}
		} else {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return conn.LocalAddr().String()
}
