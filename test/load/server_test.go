package load

import (
	"context"
	"crypto/x509"
	_ "embed"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/freeport"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

func TestMain(m *testing.M) { fleettest.Main(m) }

// The objects, in the namespace load: stable-N with one ClusterSetIP, headless-N with ten constant endpoints, changing-N with three
// endpoints that keep changing within the service's own range, and large with a hundred endpoints.
const (
	stable   = 200
	headless = 50
	changing = 100
)

func stableIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 100, byte(i / 250), byte(i%250 + 1)})
}

func headlessIPs(i, n int) (ips []netip.Addr) {
	for endpoint := range n {
		ips = append(ips, netip.AddrFrom4([4]byte{10, 110, byte(i), byte(endpoint + 1)}))
	}
	return ips
}

// changingIPs returns the endpoints of a generation of a changing service. The third octet identifies the service, the last the generation.
func changingIPs(i, generation int) (ips []netip.Addr) {
	for n := range 3 {
		ips = append(ips, netip.AddrFrom4([4]byte{10, 120, byte(i), byte(generation%83*3 + n + 1)}))
	}
	return ips
}

var (
	//go:embed testdata/serviceimport.yaml
	serviceImport string
	//go:embed testdata/endpointslice.yaml
	endpointSlice string
	//go:embed testdata/Corefile
	corefile string
)

// fill replaces the words in capitals of a text in testdata, which words has with their values.
func fill(text string, words ...string) string { return strings.NewReplacer(words...).Replace(text) }

func endpoints(ips []netip.Addr) string {
	each := make([]string, len(ips))
	for i, ip := range ips {
		each[i] = fmt.Sprintf(`{"addresses": [%q], "conditions": {"ready": true}}`, ip)
	}
	return strings.Join(each, ", ")
}

// cluster is an API server with the test objects.
type cluster struct {
	plane  *kube.ControlPlane
	client kubernetes.Interface
	// generations are the last generation written of each changing service.
	generations [changing]atomic.Int64
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{plane: kube.Start(t)}
	var err error
	if c.client, err = kubernetes.NewForConfig(c.plane.Config()); err != nil {
		t.Fatal(err)
	}
	all := "{apiVersion: v1, kind: Namespace, metadata: {name: load}}\n---\n"
	add := func(name string, ips []netip.Addr) {
		all += fill(serviceImport, "NAME", name, "TYPE", "Headless", "ADDRESSES", "") + fill(endpointSlice, "NAME", name, "ENDPOINTS", endpoints(ips))
	}
	for i := range stable {
		all += fill(serviceImport, "NAME", fmt.Sprintf("stable-%d", i), "TYPE", "ClusterSetIP", "ADDRESSES", stableIP(i).String())
	}
	for i := range headless {
		add(fmt.Sprintf("headless-%d", i), headlessIPs(i, 10))
	}
	for i := range changing {
		add(fmt.Sprintf("changing-%d", i), changingIPs(i, 0))
	}
	add("large", headlessIPs(255, 100))
	c.plane.Apply(t, append(kube.MCSCRDs(), crds.All()...)...)
	c.plane.Apply(t, []byte(all))
	return c
}

// change writes the next generation of a changing service's endpoints. The end of the context doesn't interrupt the write, so
// generations always has what was written.
func (c *cluster) change(ctx context.Context, i int) error {
	next := c.generations[i].Load() + 1
	patch := fmt.Appendf(nil, `{"endpoints": [%s]}`, endpoints(changingIPs(i, int(next))))
	_, err := c.client.DiscoveryV1().EndpointSlices("load").Patch(context.WithoutCancel(ctx), fmt.Sprintf("changing-%d-1", i),
		types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		c.generations[i].Store(next)
	}
	return err
}

// server is a coredns under load. It serves DNS over UDP and TCP on one port and over TLS on another.
type server struct {
	program *fleet.Program
	plain   string // host:port
	tls     string
	metrics fleet.Metrics
	trusted *x509.CertPool
}

// startServer starts coredns with the cluster's objects, as its Deployment would, except for the lines that are added to the first
// server block (more) and to the clusterset stanzas (option).
func startServer(t *testing.T, c *cluster, more, option string) *server {
	t.Helper()
	if err := fleettest.Build(); err != nil {
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
		Name: "coredns", Path: fleettest.Binaries().CoreDNS, Log: filepath.Join(dir, "log"),
		Args: func() ([]string, error) {
			ports, err := freeport.Several(3)
			if err != nil {
				return nil, err
			}
			s.plain, s.tls, s.metrics.Addr = "127.0.0.1:"+ports[0], "127.0.0.1:"+ports[1], "127.0.0.1:"+ports[2]
			text := fill(fill(corefile, "MORE", more, "OPTION", option), "PLAIN", ports[0], "TLS", ports[1], "METRICS", s.metrics.Addr,
				"KUBECONFIG", c.plane.Kubeconfig(), "CERTS", dir)
			return []string{"-conf", config}, os.WriteFile(config, []byte(text), 0o600)
		},
		Up: func(ctx context.Context) error {
			reply, err := fleet.Exchange(ctx, s.plain, "large.load.svc.clusterset.local.", dns.TypeA, "udp")
			if err == nil && reply.Rcode != dns.RcodeSuccess {
				err = fmt.Errorf("it answers %s", dns.RcodeToString[reply.Rcode])
			}
			return err
		},
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

// usage is what the server uses at a moment.
type usage struct {
	goroutines, files int
	resident          int           // memory of the process in bytes
	handled           int           // queries that the server has answered, over all transports
	cpu               time.Duration // processor time that the process has used
}

func (s *server) usage(ctx context.Context) (usage, error) {
	m, err := s.metrics.Samples(ctx)
	return usage{
		goroutines: int(m.Sum("go_goroutines")),
		files:      int(m.Sum("process_open_fds")),
		resident:   int(m.Sum("process_resident_memory_bytes")),
		handled:    int(m.Sum("coredns_dns_responses_total")),
		cpu:        time.Duration(m.Sum("process_cpu_seconds_total") * float64(time.Second)),
	}, err
}

// drops counts the packets that the kernel dropped because a receive buffer was full: the server's, or that of a socket connected
// to it. A closed socket's drops are no longer counted.
func (s *server) drops() (total int, err error) {
	table, err := os.ReadFile("/proc/net/udp")
	if err != nil {
		return 0, err
	}
	ours := fmt.Sprintf("0100007F:%04X", netip.MustParseAddrPort(s.plain).Port())
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
