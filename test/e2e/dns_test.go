package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/kube"
)

// dnsServer is a real CoreDNS that reads a member's API server.
type dnsServer struct {
	testing.TB
	program *program
	*dnsPorts
}

// dnsPorts are the ports of a running server; each start has new ones.
type dnsPorts struct {
	addr string // host:port, UDP and TCP
	scrape
}

func newDNS(c *cluster, at location, base string) *dnsServer {
	d := &dnsServer{dnsPorts: &dnsPorts{}}
	d.program = &program{Name: "CoreDNS at " + at.Cluster, Path: binary("coredns"), Log: base + ".log"}
	d.program.Args = func() ([]string, error) {
		kubeconfig, err := c.kubeconfigFor("clusterset-dns")
		if err != nil {
			return nil, err
		}
		var ports [2]string
		for i := range ports {
			if ports[i], err = freePort(); err != nil {
				return nil, err
			}
		}
		d.addr, d.scrape.Addr = net.JoinHostPort("127.0.0.1", ports[0]), net.JoinHostPort("127.0.0.1", ports[1])
		corefile := base + ".Corefile"
		err = os.WriteFile(corefile, fmt.Appendf(nil, `.:%s {
    bind 127.0.0.1
    errors
    prometheus %s
    clusterset clusterset.local svc.global {
        kubeconfig %s
        location %s
    }
}
`, ports[0], d.scrape.Addr, kubeconfig, at), 0o600)
		return []string{"-conf", corefile}, err
	}
	// It binds its port before it has read its objects, and answers SERVFAIL until then.
	d.program.Up = func(ctx context.Context) error {
		r, err := exchange(ctx, d.addr, "clusterset.local", "SOA", "udp")
		if err != nil {
			return err
		}
		if r.Rcode != dns.RcodeSuccess {
			return fmt.Errorf("SOA clusterset.local: %s", dns.RcodeToString[r.Rcode])
		}
		return nil
	}
	return d
}

func (d *dnsServer) of(t testing.TB) *dnsServer {
	mine := *d
	mine.TB = t
	return &mine
}

// dnsAt starts another CoreDNS for a member, with another location, until the test ends.
func (m *member) dnsAt(at location) *dnsServer {
	m.Helper()
	d := newDNS(&m.cluster, at, filepath.Join(m.TempDir(), "dns")).of(m)
	m.Cleanup(d.kill)
	d.start()
	return d
}

// kill kills the server.
func (d *dnsServer) kill() { d.program.Kill() }

// start starts the server and waits until it answers.
func (d *dnsServer) start() {
	d.Helper()
	if err := d.program.Start(context.Background()); err != nil {
		d.Fatal(err)
	}
}

// restart kills the server and starts it.
func (d *dnsServer) restart() {
	d.Helper()
	d.kill()
	d.start()
}

// reply asks the server once over UDP and returns the whole reply.
func (d *dnsServer) reply(name, qtype string) (*dns.Msg, error) {
	return exchange(context.Background(), d.addr, name, qtype, "udp")
}

// ask asks the server once over UDP and returns the reply as a client sees it: the sorted data of its records, or the reason
// why there are none, such as NXDOMAIN, NODATA or SERVFAIL.
func (d *dnsServer) ask(name, qtype string) ([]string, error) {
	r, err := d.reply(name, qtype)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Rcode != dns.RcodeSuccess:
		return []string{dns.RcodeToString[r.Rcode]}, nil
	case len(r.Answer) == 0:
		return []string{"NODATA"}, nil
	}
	var data []string
	for _, rr := range r.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return data, nil
}

// answers returns nil if the answer has the wanted records, in any order.
func (d *dnsServer) answers(name, qtype string, want ...string) error {
	got, err := d.ask(name, qtype)
	if err != nil {
		return err
	}
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s: dig %s %s: got %q, want %q", d.program.Name, name, qtype, got, want)
	}
	return nil
}

// eventually waits until the answer is the one wanted, in any order.
func (d *dnsServer) eventually(name, qtype string, want ...string) {
	d.Helper()
	kube.Eventually(d, soon, func() error { return d.answers(name, qtype, want...) })
}

// alongside asks the same question over and over while something happens. The function it returns ends that, after one last
// time, and fails the test if any answer was not among those allowed: words as ask returns them, joined by blanks.
//
// The server must not be restarted meanwhile.
func (d *dnsServer) alongside(name, qtype string, allowed ...string) (stop func()) {
	d.Helper()
	stopping, done := make(chan struct{}), make(chan struct{})
	var wrong []string
	n := 0
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for last := false; !last; n++ {
			select {
			case <-stopping:
				last = true
			case <-tick.C:
			}
			got, err := d.ask(name, qtype)
			switch {
			case len(wrong) > 20:
			case err != nil:
				wrong = append(wrong, err.Error())
			case !slices.Contains(allowed, strings.Join(got, " ")):
				wrong = append(wrong, strings.Join(got, " "))
			}
		}
	}()
	ended := false
	stop = func() {
		d.Helper()
		if ended {
			return
		}
		ended = true
		close(stopping)
		<-done
		if len(wrong) > 0 {
			d.Errorf("%s: dig %s %s, %d times: want one of %q, got\n%s", d.program.Name, name, qtype, n, allowed, strings.Join(wrong, "\n"))
		}
	}
	d.Cleanup(stop)
	return stop
}

// exchange asks once, and again where a datagram got lost, which on a busy machine they do even on loopback.
func exchange(ctx context.Context, addr, name, qtype, network string) (*dns.Msg, error) {
	kind, ok := dns.StringToType[qtype]
	if !ok {
		return nil, fmt.Errorf("no such type: %s", qtype)
	}
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), kind)
	query.SetEdns0(4096, false)
	client := dns.Client{Net: network, Timeout: 5 * time.Second}
	var err error
	for range 3 {
		var r *dns.Msg
		if r, _, err = client.ExchangeContext(ctx, query, addr); err == nil {
			return r, nil
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			break
		}
	}
	return nil, fmt.Errorf("dig @%s %s %s: %w", addr, name, qtype, err)
}
