package docs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/corefile"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
)

const rolloutName = "web.shop.svc.clusterset.local."

// startShop starts a control plane with one service, rolloutName.
func startShop(t *testing.T) *kube.ControlPlane {
	t.Helper()
	plane := kube.Start(t)
	plane.Apply(t, append(kube.MCSCRDs(), crds.All()...)...)
	plane.Apply(t, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"), []byte(`
apiVersion: multicluster.x-k8s.io/v1beta1
kind: ServiceImport
metadata: {name: web, namespace: shop}
spec:
  type: ClusterSetIP
  ips: [10.42.0.1]
  ports: [{name: http, protocol: TCP, port: 80}]
`))
	return plane
}

// TestStopLosesNoQuery stops a server while clients query it over sockets that they keep, as forwarders do. Other servers get the
// queries only once this one reports that it isn't ready; until then it has to answer. docs/rollouts.md has the figures of the same
// test through a kube-proxy.
func TestStopLosesNoQuery(t *testing.T) {
	plane := startShop(t)
	for name, text := range map[string]string{
		"corefile.example":           read(t, filepath.Join(root, "corefile.example")),
		"the chart's, standalone":    renderedCorefile(t, "defaults"),
		"the chart's as cluster DNS": renderedCorefile(t, "cluster-dns"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dotPort := freeport.For(t)
			s := start(t, text+encrypted(t, dotPort), plane.Kubeconfig(), "127.0.0.1:9")
			ready := func() error { return corefile.Ready(t.Context(), s.Probe) }
			kube.Eventually(t, ready)
			var clients []*steadyClient
			for range 3 {
				clients = append(clients, s.client("udp", s.Port), s.client("tcp", s.Port), s.client("tcp-tls", dotPort))
			}
			var asking sync.WaitGroup
			done := make(chan struct{})
			for _, c := range clients {
				kube.Eventually(t, c.ask) // CoreDNS is ready a moment before it listens
				asking.Go(func() { c.askUntil(done) })
			}
			everyoneAsks(t, clients)

			// A reload doesn't end the server. A SIGTERM after it is still handled, although a reload by SIGUSR1 drops caddy's
			// event hooks.
			if err := s.Signal(syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			kube.Eventually(t, func() error {
				if !strings.Contains(s.log.String(), "Reloading complete") {
					return errors.New("not reloaded")
				}
				return ready()
			})
			everyoneAsks(t, clients)

			if err := s.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			kube.Eventually(t, func() error {
				if ready() == nil {
					return errors.New("ready still says yes")
				}
				return nil
			})
			everyoneAsks(t, clients) // it answers until clients learn that it is going away
			select {
			case <-s.Exited():
			case <-time.After(2 * time.Minute):
				t.Error("the server doesn't end")
			}
			close(done)
			asking.Wait()
			for _, c := range clients {
				if len(c.lost) > 0 {
					t.Errorf("%s: %d answers, and %d queries without one while the server ran: %v", c.network, c.answered.Load(), len(c.lost), c.lost)
				}
			}
			if code := s.Stop(0); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// everyoneAsks waits until each client has had 100 more answers.
func everyoneAsks(t *testing.T, clients []*steadyClient) {
	t.Helper()
	for _, c := range clients {
		from := c.answered.Load()
		kube.Eventually(t, func() error {
			if n := c.answered.Load() - from; n < 100 {
				return fmt.Errorf("%s: %d answers, want 100", c.network, n)
			}
			return nil
		})
	}
}

// steadyClient sends one query after the other over the same socket.
type steadyClient struct {
	network, addr string
	ended         <-chan struct{}
	conn          *dns.Conn
	answered      atomic.Int64
	lost          []error // errors of queries without an answer while the server ran
}

func (s *server) client(network, port string) *steadyClient {
	return &steadyClient{network: network, addr: net.JoinHostPort("127.0.0.1", port), ended: s.Exited()}
}

func (c *steadyClient) askUntil(done <-chan struct{}) {
	pace := time.NewTicker(2 * time.Millisecond) // leaves processor time to the servers
	defer pace.Stop()
	for {
		select {
		case <-done:
			return
		case <-c.ended:
			return
		case <-pace.C:
		}
		err := c.ask()
		if err != nil && c.network != "udp" {
			err = c.ask() // a server may close a connection at any time (RFC 7766 section 6.2.4)
		}
		if err == nil {
			c.answered.Add(1)
			continue
		}
		select {
		case <-c.ended: // the server ended before it could answer
			return
		case <-time.After(rolloutPatience):
			c.lost = append(c.lost, err)
		}
	}
}

// rolloutPatience is how long a client waits for an answer, and then for the end of the server, which excuses a missing answer.
// Together that is less than the five seconds for which a server with shed and the health plugin's lameduck is silent before it
// ends.
const rolloutPatience = 2 * time.Second

// ask sends one query. It keeps a UDP socket even after an error. After an error on a stream, the next call connects again.
func (c *steadyClient) ask() (err error) {
	client := &dns.Client{Net: c.network, Timeout: rolloutPatience, TLSConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test's own server
	if c.conn == nil {
		if c.conn, err = client.Dial(c.addr); err != nil {
			return err
		}
	}
	r, _, err := client.ExchangeWithConn(new(dns.Msg).SetQuestion(rolloutName, dns.TypeA), c.conn)
	if err == nil && len(r.Answer) != 1 {
		err = fmt.Errorf("got %v", r)
	}
	if err != nil && c.network != "udp" {
		_ = c.conn.Close()
		c.conn = nil
	}
	return err
}

// encrypted returns a server block for DNS over TLS. Such a block can't contain shed.
func encrypted(t *testing.T, port string) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := kube.WriteCertificate(dir); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("\ntls://clusterset.local:%s {\n    tls %s/tls.crt %s/tls.key\n    clusterset {\n    }\n}\n", port, dir, dir)
}

// renderedCorefile returns the Corefile that the chart renders for one of its examples.
func renderedCorefile(t *testing.T, example string) string {
	t.Helper()
	for _, document := range strings.Split(read(t, filepath.Join(root, "test", "chart", "testdata", example+".yaml")), "\n---\n") {
		var config corev1.ConfigMap
		if err := yaml.Unmarshal([]byte(document), &config); err == nil && config.Data["Corefile"] != "" {
			return config.Data["Corefile"]
		}
	}
	t.Fatalf("%s: no ConfigMap holds a Corefile", example)
	return ""
}
