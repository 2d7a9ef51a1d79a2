package clusterset_test

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/clusterset/clusterset/test/kube"
)

// startupfails is a plugin that fails after all others, including clusterset, have started.
func init() {
	plugin.Register("startupfails", func(c *caddy.Controller) error {
		c.OnStartup(func() error { return errors.New("startupfails: as the test wants it") })
		return nil
	})
	dnsserver.Directives = append(slices.Clone(dnsserver.Directives), "startupfails")
}

const reloads = 10

// liveReloads has its credentials in files, as in a pod: client-go watches such files for changes with its own goroutines.
func liveReloads(t *testing.T, control *kube.ControlPlane) {
	dir := t.TempDir()
	config := control.Config()
	files := map[string][]byte{"ca.crt": config.CAData, "client.crt": config.CertData, "client.key": config.KeyData}
	for name, data := range files {
		writeFile(t, filepath.Join(dir, name), data)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthority: filepath.Join(dir, "ca.crt")}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"u": {
			ClientCertificate: filepath.Join(dir, "client.crt"), ClientKey: filepath.Join(dir, "client.key"),
		}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	const web, db = "A web.reload.svc.clusterset.local", "A db.reload.svc.clusterset.local"
	control.Apply(t, namespaceYAML("reload"), importYAML("reload", "web", "ClusterSetIP", "10.0.0.1"),
		importYAML("reload", "db", "Headless"), sliceYAML("reload", "db-1", "db", "reload-c", "10.0.0.2"))
	corefile := func(ttl int) string {
		return strings.Replace(liveCorefile(kubeconfig), "location", fmt.Sprintf("ttl %d\n        location", ttl), 1)
	}
	s := startLive(t, corefile(100))
	s.expect(t, map[string]string{web: "10.0.0.1", db: "10.0.0.2"})
	before := censusOfWatching(t)

	stop := s.askAlong(t, map[string][]string{web: {"10.0.0.1"}, db: {"10.0.0.2"}})
	for i := range reloads {
		if err := s.reload(corefile(101 + i)); err != nil {
			t.Fatalf("reload %d: %v", i, err)
		}
		m, err := exchangeAt(s.udp, web)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := m.Answer[0].Header().Ttl, uint32(101+i); got != want { //nolint:gosec // small
			t.Errorf("after reload %d the TTL is %d, want %d: the old server answers", i, got, want)
		}
	}
	stop()
	expectCensus(t, before)

	control.Apply(t, importYAML("reload", "web", "ClusterSetIP", "10.0.0.3"))
	s.expect(t, map[string]string{web: "10.0.0.3"})
}

func liveFailedReloads(t *testing.T, control *kube.ControlPlane) {
	const web = "A web.failed.svc.clusterset.local"
	control.Apply(t, namespaceYAML("failed"), importYAML("failed", "web", "ClusterSetIP", "10.0.0.1"))
	good := liveCorefile(control.Kubeconfig())
	s := startLive(t, good)
	s.expect(t, map[string]string{web: "10.0.0.1"})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := censusOfWatching(t)

	second := func(zone, option string) string {
		return withSource(fmt.Sprintf("%s {\n    bind 127.0.0.1\n    clusterset\n    %s\n}\n", zone, option), "kubeconfig "+control.Kubeconfig())
	}
	current := "10.0.0.1"
	for i, c := range []struct{ name, corefile, wantErr string }{
		{"a port that is taken", good + second("other.test:"+fmt.Sprint(taken.Addr().(*net.TCPAddr).Port), ""), "address already in use"},
		{"a plugin that fails to start", good + second("other.test:0", "startupfails"), "startupfails: as the test wants it"},
		{"an unknown option of ours", good + strings.Replace(second("other.test:0", ""), "kubeconfig", "kubecfg", 1), `unknown option "kubecfg"`},
		{"an unknown plugin", good + second("other.test:0", "nosuchplugin"), "nosuchplugin"},
		{"a zone that is served twice", good + strings.Replace(second(".:0", ""), "    clusterset", "    clusterset other.test", 1), "cannot serve"},
		{"a second stanza of ours", good + second("other.test:0", "clusterset"), "one clusterset stanza"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stop := s.askAlong(t, map[string][]string{web: {current}})
			err := s.reload(c.corefile)
			if err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("got %v, want an error with %q", err, c.wantErr)
			}
			stop()
			expectCensus(t, before)
			for _, kind := range liveKinds {
				expectMetric(t, 1, "source_synced", "source", "kubernetes", "kind", kind)
			}
			current = fmt.Sprintf("10.0.1.%d", i)
			control.Apply(t, importYAML("failed", "web", "ClusterSetIP", current))
			s.expect(t, map[string]string{web: current})
		})
	}
	// After the failed reloads, a good one still works.
	if err := s.reload(good); err != nil {
		t.Fatal(err)
	}
	expectCensus(t, before)
}
