package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/test/corefile"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// kubernetesRE matches a plugin that needs an API server.
var kubernetesRE = regexp.MustCompile(`(?s)kubernetes .*?\n *\}`)

// A server that runs with a cluster's Corefile reloads what `clusterset dns enable` makes of it, and then answers the zones: with a Corefile of
// kubeadm, with a file that AKS's imports, and as NodeLocal DNSCache. The rules are of docs/spec/control-plane.md (C86).
func TestClusterDNSReloads(t *testing.T) {
	upstream := freeport.For(t)
	startCoreDNS(t, fmt.Sprintf(".:%s {\n bind 127.0.0.1\n template IN TXT {\n  answer \"{{ .Name }} 5 IN TXT 1.0.0\"\n }\n}\n", upstream))
	for _, c := range []struct{ file, runs, edited string }{
		{"kubeadm", "coredns", "coredns"},
		{"aks", "coredns", "coredns-custom"},
		{"node-local", "node-local-dns", "node-local-dns"},
	} {
		t.Run(c.file, func(t *testing.T) {
			local, err := corefile.Adapt(fileOf(t, c.file, c.runs)+"\n"+blockOf(t, c.file, c.edited), "", func(server string) string {
				if server == "10.96.0.53" {
					return "127.0.0.1:" + upstream
				}
				return corefile.Nowhere(server)
			})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			text := strings.ReplaceAll(kubernetesRE.ReplaceAllString(local.Text, "whoami"), "custom/*", dir+"/*")
			text = strings.ReplaceAll(text, "health 169.254.20.10:8080", "health 127.0.0.1:"+freeport.For(t))
			text = regexp.MustCompile(`(?m)^( *)reload$`).ReplaceAllString(text, "${1}reload 2s 1s") // as often as it can
			before, block, _ := strings.Cut(text, "# clusterset: begin")
			server := startCoreDNS(t, before)
			answers := func(want int) {
				kube.Eventually(t, func() error {
					m, _, err := (&dns.Client{Timeout: 2 * time.Second}).Exchange(new(dns.Msg).SetQuestion("dns-version.svc.global.", dns.TypeTXT), local.DNS)
					if err == nil && len(m.Answer) != want {
						err = fmt.Errorf("want %d answers\n%v", want, m)
					}
					return err
				})
			}
			answers(0)
			path, now := server.corefile, text
			if c.runs != c.edited {
				path, now = filepath.Join(dir, "clusterset.server"), "# clusterset: begin"+block
			}
			if err := os.WriteFile(path, []byte(now), 0o600); err != nil {
				t.Fatal(err)
			}
			answers(1)
		})
	}
}

// fileOf returns the Corefile of a ConfigMap of the clusters in cli/clusterdns.
func fileOf(t *testing.T, file, name string) string {
	t.Helper()
	for document := range strings.SplitSeq(testdata(t, file+".yaml"), "\n---\n") {
		var m corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &m); err != nil {
			t.Fatal(err)
		}
		if m.Name == name {
			return m.Data["Corefile"]
		}
	}
	t.Fatalf("%s has no ConfigMap %s", file, name)
	return ""
}

// blockOf returns what enable adds to a ConfigMap.
func blockOf(t *testing.T, file, name string) (block string) {
	t.Helper()
	_, diff, _ := strings.Cut(testdata(t, file+".diff"), "+++ ConfigMap kube-system/"+name+"\n")
	diff, _, _ = strings.Cut(diff, "--- ")
	for line := range strings.Lines(diff) {
		if added, is := strings.CutPrefix(line, "+"); is {
			block += added
		}
	}
	return block
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "cli", "clusterdns", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
