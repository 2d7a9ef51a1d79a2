package cli

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/view"
)

// TestLookingAtASet tests the interactive commands on one hub and one member. The subtests share both, because starting them takes most of
// the time.
func TestLookingAtASet(t *testing.T) {
	s := startLookedAt(t)
	t.Run("status", func(t *testing.T) { testStatus(t, s) })
	t.Run("explain", func(t *testing.T) { testExplain(t, s) })
	t.Run("preview", func(t *testing.T) { testPreview(t, s) })
	t.Run("drain", func(t *testing.T) { testDrain(t, s) })
	t.Run("doctor", func(t *testing.T) { testDoctor(t, s) })
	t.Run("errors", func(t *testing.T) { testErrors(t, s) })
	t.Run("console", func(t *testing.T) { testConsole(t, s) })
	t.Run("hub down", func(t *testing.T) { testHubDown(t, s) })
}

// testConsole has the usage of `clusterset console`; test/console tests its pages.
func testConsole(t *testing.T, s lookedAt) {
	fails(t, exitUsage, "--hub-kubeconfig, --hub-context or --manifests is required", "console")
	fails(t, exitUsage, `there is no context "paris"`, "console", "--hub-kubeconfig", s.hub.Kubeconfig(), "--kubeconfig", s.member.Kubeconfig(), "--context", "paris")
	fails(t, exitUsage, "--manifests and", "console", "--hub-kubeconfig", s.hub.Kubeconfig(), "--manifests", ".")
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
	for command, words := range map[string][]string{
		"services -A":              {"web ", "beijing, shanghai "},
		"services shop/web":        {"web ", "beijing, shanghai "},
		"services -n shop -o json": {`"name": "web"`, `"cluster": "beijing"`, `"everyone": true`},
	} {
		_, stdout, stderr := cli(t, append(strings.Fields(command), "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.hub.Kubeconfig())...)
		for _, word := range words {
			if !strings.Contains(stdout, word) {
				t.Errorf("%s: no %q in\n%s%s", command, word, stdout, stderr)
			}
		}
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
}

func testDoctor(t *testing.T, s lookedAt) {
	server := startDNS(t, "dns-version.clusterset.local.")
	code, stdout, stderr := cli(t, "doctor", "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.hub.Kubeconfig(), "--dns", server)
	if code != exitFailure || !strings.Contains(stderr, "2 problems, shown above with their fixes") {
		t.Errorf("doctor: exit code %d, %s", code, stderr)
	}
	s.same(t, "doctor.txt", strings.NewReplacer(server, "DNS", s.member.Kubeconfig(), "MEMBER").Replace(stdout))

	// Without the zone that isn't served, doctor finds no problem.
	code, stdout, _ = cli(t, "doctor", "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.hub.Kubeconfig(), "--dns", server, "--zones", "ClusterSet.local.")
	if code != 0 || strings.Contains(stdout, "PROBLEM") {
		t.Errorf("doctor --zones: exit code %d\n%s", code, stdout)
	}
	// For an account without rights, the output lists the missing rights.
	code, stdout, _ = cli(t, "doctor", "--kubeconfig", s.member.Kubeconfig(), "--hub-kubeconfig", s.agentKubeconfig(t), "-o", "json")
	if code != exitFailure || !strings.Contains(stdout, "list leases.coordination.k8s.io") {
		t.Errorf("doctor with a member's account: exit code %d\n%s", code, stdout)
	}
	// A server that doesn't serve the kinds.
	code, stdout, _ = cli(t, "doctor", "--kubeconfig", s.hub.Kubeconfig())
	if code != exitFailure || !strings.Contains(stdout, "doesn't serve serviceimports.multicluster.x-k8s.io") {
		t.Errorf("doctor on a hub: exit code %d\n%s", code, stdout)
	}
}

func testHubDown(t *testing.T, s lookedAt) {
	s.hub.StopAPIServer()
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
	server := &dns.Server{PacketConn: conn, Handler: versionOf(name)}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = conn.Close(); <-done })
	return conn.LocalAddr().String()
}

// versionOf answers with the version record of one name.
func versionOf(name string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if r.Question[0].Name == name {
			m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"1.0.0"}}}
		} else {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	}
}
