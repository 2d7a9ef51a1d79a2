package express

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin/kubernetes"
)

// moduleDir returns the directory of the CoreDNS module that this is built with.
func moduleDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/coredns/coredns").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Each option of the plugin kubernetes is allowed, or known to turn the express path off for its zones. An option that a new version of
// CoreDNS adds has to be looked at; until then it turns the path off.
func TestEveryOptionOfKubernetesIsKnown(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(moduleDir(t), "plugin", "kubernetes", "setup.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var options []string
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.CaseClause); ok {
			for _, e := range c.List {
				if l, ok := e.(*ast.BasicLit); ok {
					name, _ := strconv.Unquote(l.Value)
					options = append(options, name)
				}
			}
		}
		return true
	})
	off := []string{"multicluster"}
	for _, name := range options {
		if slices.Contains(clusterOptions, name) == slices.Contains(off, name) {
			t.Errorf("what does the option %s of kubernetes do to replies?", name)
		}
	}
	for _, name := range append(off, clusterOptions...) {
		if !slices.Contains(options, name) {
			t.Errorf("kubernetes has no option %s", name)
		}
	}
}

// Rule A79 of docs/spec/answers.md.
func TestZonesOfKubernetes(t *testing.T) {
	ours := []Zone{{Name: "clusterset.local."}}
	for _, c := range []struct {
		name, directives string
		zones            []string
		others           []*dnsserver.Config
		refusal          string
	}{
		{"kubeadm's", "kubernetes cluster.local in-addr.arpa ip6.arpa {\npods insecure\nfallthrough in-addr.arpa ip6.arpa\nttl 30\n}\ncache 30 {\ndisable success cluster.local\ndisable denial cluster.local\n}", []string{"cluster.local."}, nil, ""},
		{"none", "forward . 192.0.2.1", nil, nil, ""},
		{"two", "kubernetes cluster.local b.cluster.local", []string{"cluster.local.", "b.cluster.local."}, nil, ""},
		{"one in ours", "kubernetes cluster.local a.clusterset.local", []string{"cluster.local."}, nil, ""},
		{"another plugin's option", "kubernetes cluster.local {\nmulticluster cluster.local\n}", nil, nil, "the express path doesn't know the option multicluster of kubernetes"},
		{"a long TTL", "kubernetes cluster.local {\nttl 301\n}", nil, nil, "the ttl of kubernetes is 301, above 300"},
		{"a cache that cuts", "kubernetes cluster.local {\nttl 30\n}\ncache 10", nil, nil, "cache changes the ttl of kubernetes, 30"},
		{"a cache that raises", "kubernetes cluster.local {\nttl 2\n}\ncache", nil, nil, "cache changes the ttl of kubernetes, 2"},
		{"a cache with its own TTL", "kubernetes cluster.local\ncache {\ndenial 100 7\n}", nil, nil, "cache sets a TTL of its own for denial"},
		{"a cache with a new option", "kubernetes cluster.local\ncache {\nnovelty\n}", nil, nil, "the express path doesn't know the option novelty of cache"},
		{"another block's zone", "kubernetes cluster.local", nil, []*dnsserver.Config{config("svc.cluster.local.", "53", "")}, "another server block at this address has the zone svc.cluster.local."},
	} {
		b := &Block{Configs: []*dnsserver.Config{config(".", "53", "")}, Others: c.others, Tokens: parseBlock(t, ".:53 {\n"+c.directives+"\n}\n")}
		k := kubernetes.New(nil)
		if stanza := b.Tokens["kubernetes"]; len(stanza) > 0 {
			k = parseKubernetes(t, c.directives)
		}
		zones, refusal := b.Clusters(k, ours)
		a := Answers{}
		a.Zones = zones
		if names := a.names(); !slices.Equal(names, c.zones) || refusal != c.refusal {
			t.Errorf("%s: got %q and %q, want %q and %q", c.name, names, refusal, c.zones, c.refusal)
		}
	}
	b := &Block{Configs: []*dnsserver.Config{config(".", "53", "")}, Tokens: parseBlock(t, ".:53 {\nkubernetes cluster.local\n}\n")}
	if _, refusal := b.Clusters(nil, ours); refusal != "the plugin kubernetes doesn't come directly after clusterset" {
		t.Errorf("with another plugin between: %q", refusal)
	}
}

func parseKubernetes(t *testing.T, directives string) *kubernetes.Kubernetes {
	t.Helper()
	c := caddy.NewTestController("dns", directives)
	c.Next()
	k, err := kubernetes.ParseStanza(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}
