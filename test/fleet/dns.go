package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/freeport"
)

// Location is the location of a cluster or a DNS server. Unknown fields are empty.
type Location struct{ Cluster, Zone, Region string }

// String returns the location in the syntax of the Corefile.
func (l Location) String() string {
	words := []string{l.Cluster, l.Zone, l.Region}
	for i, w := range words {
		if w == "" {
			words[i] = "-"
		}
	}
	return strings.Join(words, " ")
}

// DNS is a CoreDNS that reads a member's API server.
type DNS struct {
	*Program
	// Wanted is the preferred port. If it isn't free, another is used.
	Wanted string
	// Port is the current process's port on 127.0.0.1.
	Port string
	// Metrics, if set, makes the server serve metrics and gets their address.
	Metrics *Metrics
}

// NewDNS describes a DNS server that reads a cluster's API server, where it needs Rights("dns"). The names of its Corefile and its
// log are base with .Corefile and .log appended.
func NewDNS(c *Cluster, bin Binaries, at Location, base string) *DNS {
	d := &DNS{}
	d.Program = &Program{Name: "CoreDNS of " + c.Name, Path: bin.CoreDNS, Log: base + ".log"}
	d.Args = func() ([]string, error) {
		kubeconfig, err := c.KubeconfigFor("clusterset-dns")
		if err != nil {
			return nil, err
		}
		if d.Port, err = freeport.Find(d.Wanted); err != nil {
			return nil, err
		}
		metrics := ""
		if d.Metrics != nil {
			if err := d.Metrics.reserve(); err != nil {
				return nil, err
			}
			metrics = "    prometheus " + d.Metrics.Addr + "\n"
		}
		corefile := base + ".Corefile"
		err = os.WriteFile(corefile, fmt.Appendf(nil, `.:%s {
    bind 127.0.0.1
    errors
%s    clusterset clusterset.local svc.global {
        kubeconfig %s
        location %s
    }
}
`, d.Port, metrics, kubeconfig, at), 0o600)
		return []string{"-conf", corefile}, err
	}
	// CoreDNS binds its port before it has read its objects, and answers SERVFAIL until it has read them.
	d.Up = func(ctx context.Context) error {
		r, err := d.Ask(ctx, "clusterset.local", dns.TypeSOA)
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

// Addr returns the host:port of the current process, for UDP and TCP.
func (d *DNS) Addr() string { return net.JoinHostPort("127.0.0.1", d.Port) }

// Ask asks the server over UDP.
func (d *DNS) Ask(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	return Exchange(ctx, d.Addr(), name, qtype, "udp")
}

// Data returns what a reply says, as a client sees it: the sorted data of its records, or the reason why there are none, such as NXDOMAIN, NODATA
// or SERVFAIL.
func Data(reply *dns.Msg) (data []string) {
	switch {
	case reply.Rcode != dns.RcodeSuccess:
		return []string{dns.RcodeToString[reply.Rcode]}
	case len(reply.Answer) == 0:
		return []string{"NODATA"}
	}
	for _, rr := range reply.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	slices.Sort(data)
	return data
}

// Exchange asks a server, and tries again up to twice if a datagram is lost, which happens on a busy machine even on loopback.
func Exchange(ctx context.Context, addr, name string, qtype uint16, network string) (*dns.Msg, error) {
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
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
	return nil, fmt.Errorf("dig @%s %s %s: %w", addr, name, dns.TypeToString[qtype], err)
}
