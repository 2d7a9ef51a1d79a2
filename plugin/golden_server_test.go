package clusterset_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"        // for the corpus
	_ "github.com/coredns/coredns/plugin/cache"       // for the corpus
	_ "github.com/coredns/coredns/plugin/erratic"     // for the corpus
	_ "github.com/coredns/coredns/plugin/file"        // for the corpus
	_ "github.com/coredns/coredns/plugin/loadbalance" // for the corpus
	_ "github.com/coredns/coredns/plugin/minimal"     // for the corpus
	_ "github.com/coredns/coredns/plugin/rewrite"     // for the corpus
	_ "github.com/coredns/coredns/plugin/tls"         // for the corpus
	_ "github.com/coredns/coredns/plugin/transfer"    // for the corpus
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	_ "github.com/clusterset/clusterset/plugin"
	"github.com/clusterset/clusterset/test/kube"
)

func init() {
	caddy.Quiet, dnsserver.Quiet = true, true
	// The order of the directives is the order of the plugin chain. clusterset has the same place here as in
	// cmd/coredns.
	if !slices.Contains(dnsserver.Directives, "clusterset") {
		at := slices.Index(dnsserver.Directives, "kubernetes")
		dnsserver.Directives = slices.Insert(slices.Clone(dnsserver.Directives), at, "clusterset")
	}
}

// goldenServer is a running CoreDNS.
type goldenServer struct {
	udp, tcp, tls string
	roots         *x509.CertPool // trusted by DNS over TLS clients
}

// startGoldenServer starts CoreDNS with the case's Corefile. Its servers listen on port 0, so that the system picks
// free ports and no two tests use the same one.
func startGoldenServer(t *testing.T, dir string, c *goldenCase, source goldenSource) *goldenServer {
	t.Helper()
	s := &goldenServer{}
	for _, f := range c.extra {
		writeFile(t, filepath.Join(dir, f.Name), f.Data)
	}
	if strings.Contains(c.corefile, "tls://") {
		var err error
		if s.roots, err = kube.WriteCertificate(dir); err != nil {
			t.Fatal(err)
		}
	}
	corefile := withSource(c.corefile, source.provide(t, dir, c.objects))
	corefile = strings.ReplaceAll(corefile, "$DIR", dir)
	instance, err := caddy.Start(caddy.CaddyfileInput{
		Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns",
	})
	if err != nil {
		t.Fatalf("start CoreDNS: %v\n%s", err, corefile)
	}
	t.Cleanup(func() {
		instance.ShutdownCallbacks() // Stop doesn't run these callbacks, and they stop clusterset's sources
		if err := instance.Stop(); err != nil {
			t.Errorf("stop CoreDNS: %v", err)
		}
	})
	for _, listener := range listening(instance) {
		if udp := listener.LocalAddr(); udp != nil {
			s.udp, s.tcp = udp.String(), listener.Addr().String()
		} else {
			s.tls = listener.Addr().String()
		}
	}
	return s
}

// stanza matches a line that begins a clusterset stanza. Such a line is indented, unlike the first line of a server
// block for clusterset.local.
var stanza = regexp.MustCompile(`(?m)^[ \t]+clusterset\b.*$`)

// withSource adds the option that names the source to every clusterset stanza. On a busy machine the first sync takes
// longer than the default startup_timeout; a case that tests startup_timeout sets it itself.
func withSource(corefile, option string) string {
	if !strings.Contains(corefile, "startup_timeout") {
		option += "\n        startup_timeout 30s"
	}
	return stanza.ReplaceAllStringFunc(corefile, func(line string) string {
		if line, hasBlock := strings.CutSuffix(line, "{"); hasBlock {
			return line + "{\n        " + option
		}
		return line + " {\n        " + option + "\n    }"
	})
}

// provideManifests writes the objects into a directory for the manifests option.
func provideManifests(t *testing.T, dir string, objects []byte) string {
	t.Helper()
	writeFile(t, filepath.Join(dir, "objects", "objects.yaml"), objects)
	return "manifests " + filepath.Join(dir, "objects")
}

// provideUnreachable writes a kubeconfig whose API server doesn't exist.
func provideUnreachable(t *testing.T, dir string, _ []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + listener.Addr().String()
	listener.Close()
	path := filepath.Join(dir, "kubeconfig")
	config := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"gone": {Server: url, InsecureSkipTLSVerify: true}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"gone": {}},
		Contexts:       map[string]*clientcmdapi.Context{"gone": {Cluster: "gone", AuthInfo: "gone"}},
		CurrentContext: "gone",
	}
	if err := clientcmd.WriteToFile(config, path); err != nil {
		t.Fatal(err)
	}
	return "kubeconfig " + path
}

func (s *goldenServer) tlsConfig() *tls.Config {
	return &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}
}

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
