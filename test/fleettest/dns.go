package fleettest

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
)

// DNS is a real CoreDNS that reads a member's API server and serves metrics.
type DNS struct {
	testing.TB
	*fleet.DNS
}

// NewDNS returns a server that belongs to no test yet, and makes it serve metrics.
func NewDNS(base *fleet.DNS) *DNS {
	base.Metrics = &fleet.Metrics{}
	return &DNS{DNS: base}
}

// For returns the server for a test.
func (d *DNS) For(t testing.TB) *DNS {
	mine := *d
	mine.TB = t
	return &mine
}

// DNSAt starts another CoreDNS for a member, at another location. It runs until the test ends.
func (m *Member) DNSAt(at fleet.Location) *DNS {
	m.Helper()
	d := NewDNS(fleet.NewDNS(m.Cluster.Cluster, Binaries(), at, filepath.Join(m.TempDir(), "dns"))).For(m)
	m.Cleanup(d.Kill)
	d.Start()
	return d
}

// Start starts the server and waits until it answers.
func (d *DNS) Start() {
	d.Helper()
	if err := d.Program.Start(context.Background()); err != nil {
		d.Fatal(err)
	}
}

// Restart kills the server and starts it again.
func (d *DNS) Restart() {
	d.Helper()
	d.Kill()
	d.Start()
}

// Reply asks the server once over UDP and returns the whole reply.
func (d *DNS) Reply(name, qtype string) (*dns.Msg, error) {
	return Exchange(context.Background(), d.Addr(), name, qtype, "udp")
}

// ask asks the server once over UDP and returns [fleet.Data] of the reply.
func (d *DNS) ask(name, qtype string) ([]string, error) {
	r, err := d.Reply(name, qtype)
	if err != nil {
		return nil, err
	}
	return fleet.Data(r), nil
}

// Answers returns nil if the answer has exactly the wanted records, in any order.
func (d *DNS) Answers(name, qtype string, want ...string) error {
	got, err := d.ask(name, qtype)
	if err != nil {
		return err
	}
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		return fmt.Errorf("%s: dig %s %s: got %q, want %q", d.Program.Name, name, qtype, got, want)
	}
	return nil
}

// Eventually waits until the answer has exactly the wanted records, in any order.
func (d *DNS) Eventually(name, qtype string, want ...string) {
	d.Helper()
	kube.Eventually(d, func() error { return d.Answers(name, qtype, want...) })
}

// Alongside is [DNS.Throughout] for the answers to one question. Allowed answers are words as ask returns them, joined by blanks.
func (d *DNS) Alongside(name, qtype string, allowed ...string) (stop func()) {
	d.Helper()
	return d.Throughout(func() error {
		got, err := d.ask(name, qtype)
		if answer := strings.Join(got, " "); err == nil && !slices.Contains(allowed, answer) {
			err = fmt.Errorf("dig %s %s: got %q, want one of %q", name, qtype, answer, allowed)
		}
		return err
	})
}

// Throughout is [kube.Throughout]. The server must not be restarted meanwhile.
func (d *DNS) Throughout(ask func() error) (stop func()) {
	d.Helper()
	return kube.Throughout(d, func() error {
		if err := ask(); err != nil {
			return fmt.Errorf("%s: %w", d.Program.Name, err)
		}
		return nil
	})
}

// Exchange is [fleet.Exchange] for a type given by its name.
func Exchange(ctx context.Context, addr, name, qtype, network string) (*dns.Msg, error) {
	kind, ok := dns.StringToType[qtype]
	if !ok {
		return nil, fmt.Errorf("no such type: %s", qtype)
	}
	return fleet.Exchange(ctx, addr, name, kind, network)
}
