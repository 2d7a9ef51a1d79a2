package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/poll"
	runs "github.com/clusterset/clusterset/test/process"
)

// server is a running DNS server, pinned to the first core. The load generator has the second.
type server struct {
	name    string
	addr    string
	log     string
	process *runs.Process
	// net is the transport of ask, UDP if it is empty.
	net string
	// aside is a second port, for pprof or metrics.
	aside string
}

// Bodies of server blocks. They may contain the placeholders KUBECONFIG, CERTS and ASIDE.
const (
	oursBody = `    clusterset clusterset.local {
        kubeconfig KUBECONFIG
        location cluster-1 zone-1 region-1
        startup_timeout 60s
    }
`
	inTreeBody = `    kubernetes cluster.local clusterset.local {
        kubeconfig KUBECONFIG
        multicluster clusterset.local
        startup_timeout 60s
    }
`
	// localBody answers the cluster's own names behind our plugin. In inTreeBody, one plugin answers both.
	localBody = `    kubernetes cluster.local {
        kubeconfig KUBECONFIG
        startup_timeout 60s
    }
`
	pprofBody = "    pprof 127.0.0.1:ASIDE\n"
	// productionBody is the usual configuration around the plugin that answers (corefile.example), with the cluster's own names out of the cache as
	// in docs/cluster-dns.md: there are few of them here, and answers from the cache would be compared.
	productionBody = `    errors
    prometheus 127.0.0.1:ASIDE
    shed
    bufsize 1232
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loadbalance
    reload
`
)

// with returns a body with an option in the block of its first plugin.
func with(body, option string) string {
	return strings.Replace(body, "{\n", "{\n        "+option+"\n", 1)
}

// start runs coredns with one server block. A server whose name begins with "ours" runs our binary, every other server the stock one.
func (b *bench) start(name, zone, body string) (*server, error) {
	ports, err := freeport.Several(2)
	if err != nil {
		return nil, err
	}
	corefile := filepath.Join(b.dir, name+".Corefile")
	text := fmt.Sprintf("%s:%s {\n    bind 127.0.0.1\n%s}\n", zone, ports[0], body)
	text = strings.NewReplacer("KUBECONFIG", b.cluster.Plane.Kubeconfig(), "CERTS", b.dir, "ASIDE", ports[1]).Replace(text)
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		return nil, err
	}
	binary := b.stock
	if strings.HasPrefix(name, "ours") {
		binary = b.coredns
	}
	s := &server{name: name, addr: "127.0.0.1:" + ports[0], aside: ports[1]}
	return s, b.run(s, binary, "-conf", corefile)
}

// run runs a server's program on the first core. It ends when the bench does, at the latest.
func (b *bench) run(s *server, program string, args ...string) (err error) {
	cmd := exec.CommandContext(context.Background(), "taskset", append([]string{"-c", "0", program}, args...)...) //nolint:gosec // ours or a peer
	s.log = filepath.Join(b.dir, s.name+".log")
	s.process, err = runs.StartWithLog(cmd, s.log)
	return err
}

func stop(servers ...*server) {
	for _, s := range servers {
		s.process.Stop(10 * time.Second)
	}
}

// startEcho runs an echo in its own process, on the same core as the servers.
func (b *bench) startEcho(transport string) (*server, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{name: "echo", addr: "127.0.0.1:" + port}
	return s, b.run(s, self, echoArg, transport, s.addr, b.dir)
}

// ask sends one query.
func (s *server) ask(name string, qtype uint16) (*dns.Msg, error) {
	c := &dns.Client{Timeout: 200 * time.Millisecond, Net: s.net, TLSConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // ourselves
	r, _, err := c.Exchange(new(dns.Msg).SetQuestion(name, qtype), s.addr)
	return r, err
}

// await polls until the server answers a name. Any reply of the echo counts.
func (s *server) await(ctx context.Context, name string) error {
	return s.until(ctx, name, func(r *dns.Msg) bool { return len(r.Answer) > 0 || s.name == "echo" })
}

func (s *server) until(ctx context.Context, name string, ok func(*dns.Msg) bool) error {
	return poll.Within(ctx, 5*time.Minute, func(context.Context) error {
		r, err := s.ask(name, dns.TypeA)
		if err == nil && !ok(r) {
			err = fmt.Errorf("%s answers %s with\n%s", s.name, name, r)
		}
		if err != nil && !s.process.Running() {
			err = poll.Permanent(fmt.Errorf("%s ended: %s", s.name, runs.LogSince(s.log, 0, 10)))
		}
		return err
	})
}
