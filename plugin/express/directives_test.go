package express

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"
)

// Plugins that never see a query of ours come after clusterset, which stands directly before kubernetes.
func TestAllowedDirectivesExist(t *testing.T) {
	ours := slices.Index(dnsserver.Directives, "kubernetes")
	for name, e := range directives {
		at := slices.Index(dnsserver.Directives, name)
		switch {
		case name == "clusterset":
		case at < 0:
			t.Errorf("CoreDNS knows no %s", name)
		case e == behind && at < ours:
			t.Errorf("%s stands in front of clusterset", name)
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
		if _, allowed := directives[f.Name]; !allowed || !strings.HasPrefix(string(f.Data), f.Name) {
			t.Errorf("the case of %s is about something else, or turns the express path off", f.Name)
		}
	}
	for name := range directives {
		if !cases[name] {
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
		{"rewrite name a b", "rewrite may have to see every query"},
		{"log", "log may have to see every query"},
		{"novelty", "novelty may have to see every query"},
	} {
		tokens := parseBlock(t, ".:53 {\n"+c.directives+"\n}\n")
		if got := refuse(tokens, imitatedOf(tokens)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.directives, got, c.want)
		}
	}
}

func TestTheExampleCorefileHasAnExpressPath(t *testing.T) {
	corefile, err := os.ReadFile("../../corefile.example")
	if err != nil {
		t.Fatal(err)
	}
	tokens := parseBlock(t, string(corefile))
	if reason := refuse(tokens, imitatedOf(tokens)); reason != "" {
		t.Error(reason)
	}
}

// named is a handler that does nothing.
type named string

func (n named) Name() string { return string(n) }

func (named) ServeDNS(context.Context, dns.ResponseWriter, *dns.Msg) (int, error) { return 0, nil }

// imitatedOf returns handlers of those directives that have to stand before clusterset.
func imitatedOf(tokens map[string][]caddyfile.Token) (before []plugin.Handler) {
	for name := range tokens {
		if directives[name] == imitated {
			before = append(before, named(name))
		}
	}
	return before
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
