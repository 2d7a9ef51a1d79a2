package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/coredns/core/dnsserver"
)

// asCommand is the environment variable that makes the test binary run as the coredns command, which avoids a build.
const asCommand = "CLUSTERSET_TEST_AS_COREDNS"

// withoutCall is the environment variable that names what the command may not call; see forbid.
const withoutCall = "CLUSTERSET_TEST_WITHOUT_CALL"

// behindOurs is the environment variable that names the directive behind which the command has ours, as another plugin.cfg may.
const behindOurs = "CLUSTERSET_TEST_BEHIND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		forbid(os.Getenv(withoutCall))
		if first := os.Getenv(behindOurs); first != "" {
			d := slices.DeleteFunc(dnsserver.Directives, func(d string) bool { return d == "clusterset" })
			dnsserver.Directives = slices.Insert(d, slices.Index(d, first)+1, "clusterset")
		}
		main()
		return
	}
	os.Exit(m.Run())
}

func coredns(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("coredns %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestPluginsListsOursAndEveryStockOne(t *testing.T) {
	var plugins []string
	for line := range strings.Lines(coredns(t, "-plugins")) {
		// caddy registers plugins as dns.<name>, and its list drops the prefix.
		plugins = append(plugins, strings.TrimPrefix(strings.TrimSpace(line), "dns."))
	}
	for _, directive := range dnsserver.Directives { // clusterset is one of them, as the test below checks
		if !slices.Contains(plugins, directive) {
			t.Errorf("%s is a directive, but no plugin in %q", directive, plugins)
		}
	}
	if !slices.Contains(plugins, "clusterset") {
		t.Errorf("clusterset is not among %q", plugins)
	}
}

// Directives have the order of the plugin chain. Directly above kubernetes, clusterset answers its zones first, and it is below cache,
// rewrite and all other plugins that change replies.
func TestClustersetIsDirectlyAboveKubernetes(t *testing.T) {
	at := slices.Index(dnsserver.Directives, "clusterset")
	if at < 0 || len(dnsserver.Directives) < 50 || dnsserver.Directives[at+1] != "kubernetes" {
		t.Fatalf("the directives are %q", dnsserver.Directives)
	}
	for _, above := range []string{"metadata", "prometheus", "errors", "log", "loadbalance", "rewrite", "cache", "dnssec", "minimal", "transfer"} {
		if i := slices.Index(dnsserver.Directives, above); i < 0 || i > at {
			t.Errorf("%s is at %d, not above clusterset at %d", above, i, at)
		}
	}
}
