package load

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// server is a coredns under load. It serves DNS over UDP and TCP on one port and over TLS on another.
type server struct {
	program *fleet.Program
	plain   string // host:port
	tls     string
	metrics string
	trusted *x509.CertPool
}

const corefile = `.:%[1]s {
    bind 127.0.0.1
    errors
    prometheus %[3]s
    reload 2s 1s
%[6]s    clusterset clusterset.local {
        kubeconfig %[4]s
        location north
%[7]s    }
}
tls://.:%[2]s {
    bind 127.0.0.1
    errors
    prometheus %[3]s
    tls %[5]s/tls.crt %[5]s/tls.key
    timeouts {
        idle 10m
    }
    clusterset clusterset.local {
        kubeconfig %[4]s
        location north
%[7]s    }
}
`

// startServer starts coredns with the cluster's objects, as its Deployment would, except for the lines that are added to the first
// server block (more) and to the clusterset stanzas (options).
func startServer(t *testing.T, c *cluster, more string, options ...string) *server {
	t.Helper()
	binary, err := build()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	trusted, err := kube.WriteCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{trusted: trusted}
	config := filepath.Join(dir, "Corefile")
	s.program = &fleet.Program{
		Name: "coredns", Path: binary, Log: filepath.Join(dir, "log"),
		Args: func() ([]string, error) {
			ports, err := freeport.Several(3)
			if err != nil {
				return nil, err
			}
			s.plain, s.tls, s.metrics = "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1], "127.0.0.1:"+ports[2]
			text := fmt.Sprintf(corefile, ports[0], ports[1], s.metrics, c.plane.Kubeconfig(), dir,
				strings.ReplaceAll(more, "KUBECONFIG", c.plane.Kubeconfig()), strings.Join(options, ""))
			return []string{"-conf", config}, os.WriteFile(config, []byte(text), 0o600)
		},
		Up: s.up,
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(process.LogSince(s.program.Log, 0, 40))
		}
		s.program.Kill()
	})
	if err := s.program.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *server) up(ctx context.Context) error {
	client := &dns.Client{Timeout: time.Second}
	reply, _, err := client.ExchangeContext(ctx, new(dns.Msg).SetQuestion("large.load.svc.clusterset.local.", dns.TypeA), s.plain)
	if err != nil {
		return err
	}
	if reply.Rcode != dns.RcodeSuccess {
		return fmt.Errorf("it answers %s", dns.RcodeToString[reply.Rcode])
	}
	return nil
}

// reload makes the server read its Corefile again and start new plugins.
func (s *server) reload() { _ = syscall.Kill(s.program.PID(), syscall.SIGUSR1) }

// usage is what the server uses at a moment.
type usage struct {
	goroutines int
	files      int
	// resident is the process's resident memory in bytes; live is Go's heap after its last collection.
	resident, live int
	// handled is how many queries the server has answered, over all transports.
	handled int
	// cpu is the processor time that the process has used.
	cpu time.Duration
}

// collection is the factor by which Go lets the heap grow before it collects, with the GC percentage of cmd/coredns.
const collection = 1 + 400/100

func (s *server) usage(ctx context.Context) (usage, error) {
	families, err := s.scrape(ctx)
	if err != nil {
		return usage{}, err
	}
	cpu, err := processorTime(s.program.PID())
	return usage{
		goroutines: int(sum(families["go_goroutines"])),
		files:      int(sum(families["process_open_fds"])),
		resident:   int(sum(families["process_resident_memory_bytes"])),
		live:       int(sum(families["go_memstats_next_gc_bytes"])) / collection,
		handled:    int(sum(families["coredns_dns_responses_total"])),
		cpu:        cpu,
	}, err
}

func (s *server) scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body, err := (&fleet.Metrics{Addr: s.metrics}).Read(ctx)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(body))
}

func sum(family *dto.MetricFamily) float64 {
	var total float64
	for _, m := range family.GetMetric() {
		total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return total
}

// processorTime returns the processor time that a process has used, in user and kernel mode.
func processorTime(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the fields before may contain blanks
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100
}

// drops counts the packets that the kernel dropped because a receive buffer was full: the server's, or that of a socket connected
// to it. A closed socket's drops are no longer counted.
func (s *server) drops() (int, error) {
	_, port, err := net.SplitHostPort(s.plain)
	if err != nil {
		return 0, err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0, err
	}
	table, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		return 0, err
	}
	ours := fmt.Sprintf("0100007F:%04X", number)
	var total int
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 13 || fields[1] != ours && fields[2] != ours {
			continue
		}
		n, err := strconv.Atoi(fields[12])
		if err != nil {
			return 0, fmt.Errorf("/proc/net/udp: %w", err)
		}
		total += n
	}
	return total, nil
}
