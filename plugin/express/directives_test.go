package express

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"golang.org/x/tools/txtar"
)

// Every directive that a new version of CoreDNS adds must be classified before that version is used.
func TestEveryDirectiveIsClassified(t *testing.T) {
	ours := slices.Index(dnsserver.Directives, "kubernetes") // clusterset comes directly before it
	for i, name := range dnsserver.Directives {
		e, known := directives[name]
		switch {
		case !known:
			t.Errorf("what does %s do to replies?", name)
		case e == behind && i < ours:
			t.Errorf("%s stands in front of clusterset", name)
		}
	}
	for name := range directives {
		if name != "clusterset" && !slices.Contains(dnsserver.Directives, name) {
			t.Errorf("CoreDNS knows no %s", name)
		}
	}
}

// Every allowed directive has a case in the archive, so that TestExpressAnswersLikeTheChain compares it with the chain.
func TestEveryAllowedDirectiveHasACase(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/directives.txtar")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]bool{}
	for _, f := range archive.Files {
		cases[f.Name] = true
		if !strings.HasPrefix(string(f.Data), f.Name) || directives[f.Name] == off {
			t.Errorf("the case of %s is about something else, or turns the express path off", f.Name)
		}
	}
	for name, e := range directives {
		if e != off && !cases[name] {
			t.Errorf("%s has no case", name)
		}
	}
}

func TestRefusalsNameTheDirective(t *testing.T) {
	for _, c := range []struct{ directives, want string }{
		{"clusterset", ""},
		{"errors\nprometheus\nloadbalance\nbufsize 1232\ncache 30\nforward . 192.0.2.1", ""},
		{"loadbalance round_robin", ""},
		{"loadbalance weighted weights", "loadbalance does more than round_robin"},
		{"loadbalance {\nprefer 10.0.0.0/8\n}", "loadbalance does more than round_robin"},
		{"rewrite name a b", "rewrite may change replies"},
		{"log", "log may change replies"},
		{"novelty", "it doesn't know what novelty does to replies"},
	} {
		if got := refuse(parseBlock(t, ".:53 {\n"+c.directives+"\n}\n")); got != c.want {
			t.Errorf("%s: got %q, want %q", c.directives, got, c.want)
		}
	}
}

func TestTheExampleCorefileHasAnExpressPath(t *testing.T) {
	corefile, err := os.ReadFile("../../corefile.example")
	if err != nil {
		t.Fatal(err)
	}
	if reason := refuse(parseBlock(t, string(corefile))); reason != "" {
		t.Error(reason)
	}
}

func parseBlock(t *testing.T, corefile string) map[string][]caddyfile.Token {
	t.Helper()
	path := t.TempDir() + "/Corefile"
	if err := os.WriteFile(path, []byte(corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	blocks, err := caddyfile.Parse(path, f, nil)
	if err != nil || len(blocks) != 1 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	return blocks[0].Tokens
}
