package chart

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

// startsCorefiles runs the real server with each rendered Corefile, with the account and the environment that the chart gives it.
// An answer shows that the rights suffice, because the server would answer SERVFAIL if one were missing.
func (c *cluster) startsCorefiles(t *testing.T) {
	for _, e := range examples(t) {
		all := objects(t, render(t, e.Options).Manifests)
		d := deployment(t, all, "dns")
		if d == nil {
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			rights := encode(t, only(all, rbacKinds...))
			c.Apply(t, rights...)
			defer c.Delete(t, rights...)
			s := c.startDNS(t, all)
			if strings.Contains(s.corefile, "kubernetes cluster.local") {
				s.expect(t, "kubernetes.default.svc.cluster.local.", dns.TypeA)
			}
		})
	}
}

// startDNS starts the rendered server, whose roles are already applied, and waits until it answers for its zones.
func (c *cluster) startDNS(t *testing.T, all []*unstructured.Unstructured) server {
	t.Helper()
	d := deployment(t, all, "dns")
	user, groups := identity(d)
	kubeconfig, err := c.KubeconfigFor(user, groups...)
	if err != nil {
		t.Fatal(err)
	}
	s := localised(t, corefileOf(t, all), kubeconfig)
	node := map[string]string{"topology.kubernetes.io/zone": "zone-a", "topology.kubernetes.io/region": "region-a"}
	s.start(t, c.coredns, environment(t, d, node))
	kube.Eventually(t, s.ready)
	for _, zone := range []string{"clusterset.local", "svc.global"} {
		if strings.Contains(s.corefile, zone) {
			s.expect(t, zone+".", dns.TypeSOA)
		}
	}
	return s
}

// corefileOf returns the rendered Corefile.
func corefileOf(t *testing.T, all []*unstructured.Unstructured) string {
	t.Helper()
	for _, o := range only(all, "ConfigMap") {
		if corefile, ok := as[corev1.ConfigMap](t, o).Data["Corefile"]; ok {
			return corefile
		}
	}
	t.Fatal("no ConfigMap holds a Corefile")
	return ""
}

// server is a Corefile adapted to this machine, and the addresses at which it listens.
type server struct {
	corefile, dns, probe, metrics string
}

var (
	portRE     = regexp.MustCompile(`:(1053|53)\b`)
	stanzaRE   = regexp.MustCompile(`(?m)^( *)(clusterset|kubernetes)( [^{\n]*)?\{$`)
	resolverRE = regexp.MustCompile(`forward \. .*\{`)
	blockRE    = regexp.MustCompile(`(?m)^\S[^{\n]*\{$`)
)

// localised replaces what exists only in a pod: its ports, its token and volume, and the node's resolvers.
func localised(t *testing.T, corefile, kubeconfig string) server {
	t.Helper()
	port, probe, metrics := freeport.For(t), "127.0.0.1:"+freeport.For(t), "127.0.0.1:"+freeport.For(t)
	text := portRE.ReplaceAllString(corefile, ":"+port)
	for _, r := range [][2]string{
		{"health :8080", "health 127.0.0.1:" + freeport.For(t)},
		{"ready :8181", "ready " + probe},
		{"prometheus :9153", "prometheus " + metrics},
	} {
		if !strings.Contains(text, r[0]) { // the Deployment's ports and probes expect these
			t.Errorf("the Corefile has no %q", r[0])
		}
		text = strings.Replace(text, r[0], r[1], 1)
	}
	text = strings.ReplaceAll(text, "    loop\n", "") // loop queries its own upstream, which doesn't exist here
	text = strings.ReplaceAll(text, "/var/lib/clusterset/", t.TempDir()+"/")
	text = resolverRE.ReplaceAllString(text, "forward . 127.0.0.1:9 {")
	text = stanzaRE.ReplaceAllString(text, "${0}\n${1}    kubeconfig "+kubeconfig)
	text = blockRE.ReplaceAllString(text, "${0}\n    bind 127.0.0.1")
	return server{text, net.JoinHostPort("127.0.0.1", port), "http://" + probe + "/ready", metrics}
}

func (s server) start(t *testing.T, program string, env map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "Corefile")
	if err := os.WriteFile(path, []byte(s.corefile), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, env, program, "-conf", path)
}

func (s server) ready() error {
	r, err := http.Get(s.probe)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", s.probe, r.Status)
	}
	return nil
}

func (s server) expect(t *testing.T, name string, qtype uint16) {
	t.Helper()
	kube.Eventually(t, func() error { // CoreDNS is ready a moment before it listens
		r, err := dns.Exchange(new(dns.Msg).SetQuestion(name, qtype), s.dns)
		if err == nil && (r.Rcode != dns.RcodeSuccess || len(r.Answer) == 0) {
			err = fmt.Errorf("%s %s: %v", name, dns.TypeToString[qtype], r)
		}
		return err
	})
}
