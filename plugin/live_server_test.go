package clusterset_test

import (
	"crypto/x509"
	"errors"
	"fmt"
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
	clog "github.com/coredns/coredns/plugin/pkg/log"
	_ "github.com/coredns/coredns/plugin/rewrite"  // for the corpus
	_ "github.com/coredns/coredns/plugin/tls"      // for the corpus
	_ "github.com/coredns/coredns/plugin/transfer" // for the corpus
	"github.com/miekg/dns"

	_ "github.com/clusterset/clusterset/plugin"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
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

// liveServer is a CoreDNS in this process. It can be reloaded.
type liveServer struct {
	instance      *caddy.Instance
	udp, tcp, tls string
	roots         *x509.CertPool // trusted by DNS over TLS clients
}

// startLive starts CoreDNS with a Corefile whose servers listen on 127.0.0.1:0.
func startLive(t *testing.T, corefile string) *liveServer {
	t.Helper()
	instance, err := caddy.Start(liveInput(corefile))
	if err != nil {
		t.Fatalf("start CoreDNS: %v\n%s", err, corefile)
	}
	s := &liveServer{instance: instance}
	t.Cleanup(func() {
		s.instance.ShutdownCallbacks() // Stop doesn't run these callbacks, and they stop clusterset's sources
		if err := s.instance.Stop(); err != nil {
			t.Errorf("stop CoreDNS: %v", err)
		}
	})
	for _, listener := range listening(s.instance) {
		if udp := listener.LocalAddr(); udp != nil {
			s.udp, s.tcp = udp.String(), listener.Addr().String()
		} else {
			s.tls = listener.Addr().String()
		}
	}
	return s
}

// listening returns the servers that have sockets. That of the express path has none.
func listening(instance *caddy.Instance) []caddy.ServerListener {
	return slices.DeleteFunc(slices.Clone(instance.Servers()), func(s caddy.ServerListener) bool { return s.Addr() == nil })
}

// freeAddress returns one where nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	return listener.Addr().String()
}

// writeKubeconfig writes a kubeconfig for an API server and returns its path.
func writeKubeconfig(t *testing.T, url string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, path, []byte("{clusters: [{name: c, cluster: {server: '"+url+"'}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}"))
	return path
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

func writeFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// reload does the same as the reload plugin and SIGUSR1.
func (s *liveServer) reload(corefile string) error {
	instance, err := s.instance.Restart(liveInput(corefile))
	s.instance = instance
	return err
}

func liveInput(corefile string) caddy.Input {
	return caddy.CaddyfileInput{Contents: []byte(corefile), Filepath: "Corefile", ServerTypeName: "dns"}
}

// ask sends a question such as "A web.ns.svc.global" and returns [fleet.Data] of the reply.
func (s *liveServer) ask(question string) (string, error) { return askAt(s.udp, question) }

func askAt(udp, question string) (string, error) {
	m, err := exchangeAt(udp, question)
	if err != nil {
		return "", err
	}
	return strings.Join(fleet.Data(m), ", "), nil
}

func exchangeAt(udp, question string) (*dns.Msg, error) {
	qtype, name, _ := strings.Cut(question, " ")
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.StringToType[qtype])
	client := dns.Client{Timeout: exchangeTimeout}
	m, _, err := client.Exchange(m, udp)
	if err != nil {
		return nil, fmt.Errorf("dig %s: %w", question, err)
	}
	return m, nil
}

// expect waits until each question has the wanted answer.
func (s *liveServer) expect(t *testing.T, want map[string]string) {
	t.Helper()
	kube.Eventually(t, func() error {
		for question, answer := range want {
			got, err := s.ask(question)
			if err != nil {
				return err
			}
			if got != answer {
				return fmt.Errorf("dig %s: got %s, want %s", question, got, answer)
			}
		}
		return nil
	})
}

// askAlong asks the questions in the background, until the returned function is called. Each reply has to be among the allowed ones.
func (s *liveServer) askAlong(t *testing.T, allowed map[string][]string) (stop func()) {
	t.Helper()
	return kube.Throughout(t, func() error {
		var errs []error
		for question, answers := range allowed {
			got, err := s.ask(question)
			if err == nil && !slices.Contains(answers, got) {
				err = fmt.Errorf("dig %s: got %s, want one of %q", question, got, answers)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// logLines is what CoreDNS logs until the test ends.
type logLines struct {
	process.Output
	from int
}

func recordLog(t *testing.T) *logLines {
	t.Helper()
	l := &logLines{}
	clog.SetOutput(l)
	t.Cleanup(func() { clog.SetOutput(os.Stderr) })
	return l
}

func (l *logLines) lines() []string { return strings.Split(l.String()[l.from:], "\n") }

// forget drops the lines collected so far.
func (l *logLines) forget() { l.from = len(l.String()) }

// has reports whether one line contains all the words.
func (l *logLines) has(words ...string) bool {
	return slices.ContainsFunc(l.lines(), func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// expect waits until one line contains all the words.
func (l *logLines) expect(t *testing.T, words ...string) {
	t.Helper()
	kube.Eventually(t, func() error {
		if !l.has(words...) {
			return fmt.Errorf("no line has %q in:\n%s", words, strings.Join(l.lines(), "\n"))
		}
		return nil
	})
}
