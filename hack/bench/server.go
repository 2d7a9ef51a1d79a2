package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/poll"
	runs "github.com/clusterset/clusterset/test/process"
)

// server is a running DNS server, pinned to the first core. The load generator has the second.
type server struct {
	name    string
	addr    string
	net     string // udp or tcp
	aside   string // a second port, for pprof or metrics
	log     string
	process *runs.Process
}

// The servers' names: our binary with the express path and without (chain), the stock binary, and NSD.
const (
	ours   = "ours"
	chain  = "chain"
	inTree = "in-tree"
	nsd    = "nsd"
)

// Bodies of server blocks. They may contain the placeholders KUBECONFIG and ASIDE.
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

// startPeers starts servers with the usual Corefile, to be asked over one transport, and NSD if it is installed. It also returns those that it
// has started before an error.
func (b *bench) startPeers(ctx context.Context, transport string) (servers []*server, err error) {
	for _, each := range []struct{ name, body string }{
		{ours, oursBody + localBody}, {nsd, ""}, {chain, with(oursBody, "express off") + localBody}, {inTree, inTreeBody},
	} {
		var s *server
		if each.name == nsd {
			s, err = b.startNSD(transport)
		} else {
			s, err = b.start(each.name, transport, productionBody+each.body)
		}
		if err != nil {
			return servers, err
		}
		if s == nil {
			continue
		}
		servers = append(servers, s)
		if err := s.await(ctx, b.objects.headlessName(0), dns.RcodeSuccess); err != nil {
			return servers, err
		}
	}
	return servers, nil
}

// start runs coredns with one server block.
func (b *bench) start(name, transport, body string) (*server, error) {
	ports, err := freeport.Several(2)
	if err != nil {
		return nil, err
	}
	corefile := filepath.Join(b.dir, name+".Corefile")
	text := fmt.Sprintf(".:%s {\n    bind 127.0.0.1\n%s}\n", ports[0], body)
	text = strings.NewReplacer("KUBECONFIG", b.cluster.Plane.Kubeconfig(), "ASIDE", ports[1]).Replace(text)
	if err := os.WriteFile(corefile, []byte(text), 0o600); err != nil {
		return nil, err
	}
	binary := b.coredns
	if name == inTree {
		binary = b.stock
	}
	s := &server{name: name, addr: "127.0.0.1:" + ports[0], net: transport, aside: ports[1]}
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

// await polls until the server answers a name with an rcode.
func (s *server) await(ctx context.Context, name string, rcode int) error {
	return poll.Within(ctx, 5*time.Minute, func(ctx context.Context) error {
		r, err := fleet.Exchange(ctx, s.addr, name, dns.TypeA, s.net)
		if err == nil && r.Rcode != rcode {
			err = fmt.Errorf("%s answers %s with\n%s", s.name, name, r)
		}
		if err != nil && !s.process.Running() {
			err = poll.Permanent(fmt.Errorf("%s ended: %s", s.name, runs.LogSince(s.log, 0, 10)))
		}
		return err
	})
}
