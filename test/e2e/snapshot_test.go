package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/api/crds"
	"github.com/clusterset/clusterset/internal/statefile"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

// snapshotServer is a CoreDNS with the snapshot option, whose API server comes and goes.
type snapshotServer struct {
	*fleettest.DNS
	plane *kube.ControlPlane
	file  string
}

// newSnapshotServer describes a server, without starting it. Its API server needs Rights("dns") and the namespace
// kube-system, which identifies the cluster.
func newSnapshotServer(t *testing.T, plane *kube.ControlPlane) *snapshotServer {
	t.Helper()
	dir := t.TempDir()
	s := &snapshotServer{plane: plane, file: filepath.Join(dir, "dns.snapshot")}
	s.DNS = fleettest.NewDNS(fleet.NewDNS(&fleet.Cluster{Plane: plane}, fleettest.Binaries(), fleet.Location{}, filepath.Join(dir, "dns"))).For(t)
	args := s.Program.Args
	s.Program.Args = func() ([]string, error) {
		base, err := args()
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, "dns.Corefile")
		corefile, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		with := strings.Replace(string(corefile), "location - - -", fmt.Sprintf("ttl 600\n        startup_timeout 2s\n        snapshot %s 1h", s.file), 1)
		return base, os.WriteFile(path, []byte(with), 0o600)
	}
	s.Program.Up = func(ctx context.Context) error {
		_, err := fleettest.Exchange(ctx, s.Addr(), "clusterset.local", "SOA", "udp")
		return err
	}
	t.Cleanup(s.Kill)
	return s
}

// told returns what an answer reports about itself: "live", or its extended errors.
func told(m *dns.Msg) string {
	var codes []string
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if ede, ok := o.(*dns.EDNS0_EDE); ok {
				codes = append(codes, dns.ExtendedErrorCodeToString[ede.InfoCode])
			}
		}
	}
	if codes == nil {
		return "live"
	}
	return strings.Join(codes, ", ")
}

// expect waits until each name has the wanted answer, including what it reports about itself.
func (s *snapshotServer) expect(what string, want map[string]string) {
	s.Helper()
	kube.Eventually(s, func() error {
		var errs []error
		for name, answer := range want {
			errs = append(errs, s.says(name, answer))
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// says returns nil if a name's A record, or the reason why there is none, is one of those wanted, such as "10.0.0.1 Stale
// Answer".
func (s *snapshotServer) says(name string, want ...string) error {
	m, err := s.Reply(name+".shop.svc.clusterset.local", "A")
	if err != nil {
		return err
	}
	got := dns.RcodeToString[m.Rcode]
	for _, rr := range m.Answer {
		got = rr.(*dns.A).A.String()
		if rr.Header().Ttl > 30 && told(m) != "live" || rr.Header().Ttl != 600 && told(m) == "live" {
			return fmt.Errorf("%s with TTL %d", told(m), rr.Header().Ttl)
		}
	}
	got += " " + told(m)
	for _, w := range want {
		if got == w {
			return nil
		}
	}
	return fmt.Errorf("dig %s: got %s, want one of %q", name, got, want)
}

func (s *snapshotServer) serial() uint32 {
	s.Helper()
	m, err := s.Reply("clusterset.local", "SOA")
	if err != nil || len(m.Answer) != 1 {
		s.Fatalf("SOA: %v %v", m, err)
	}
	return m.Answer[0].(*dns.SOA).Serial
}

// logged waits until a line of the server's log has all the words.
func (s *snapshotServer) logged(words ...string) {
	s.Helper()
	kube.Eventually(s, func() error {
		log, err := os.ReadFile(s.Program.Log)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(log)) {
			n := 0
			for _, w := range words {
				if strings.Contains(line, w) {
					n++
				}
			}
			if n == len(words) {
				return nil
			}
		}
		return fmt.Errorf("no line has %q:\n%s", words, process.LogSince(s.Program.Log, 0, 10))
	})
}

func importOf(name, ip string) string {
	return fmt.Sprintf(`{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {namespace: shop, name: %s},
  spec: {type: ClusterSetIP, ips: [%s], ports: [{port: 80}]}}`, name, ip)
}

// A server that starts while its API server is down gives the last answers that it or its predecessor knew, and marks them
// as stale. It switches to live data in one step. It rejects an unusable file with a reason, and starts without it.
func TestDNSStartsFromItsSnapshot(t *testing.T) {
	fleettest.Alone(t)
	plane := kube.Start(t)
	plane.InstallMCS(t)
	plane.Apply(t, crds.All()...)
	plane.Apply(t, fleet.Rights("dns"), []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"))
	plane.Apply(t, fleettest.Documents([]string{importOf("web", "10.9.0.1"), importOf("leaving", "10.9.0.2")}))
	if err := fleettest.Build(); err != nil {
		t.Fatal(err)
	}
	s := newSnapshotServer(t, plane)
	live := map[string]string{"web": "10.9.0.1 live", "leaving": "10.9.0.2 live", "nope": "NXDOMAIN live"}
	stale := map[string]string{"web": "10.9.0.1 Stale Answer", "leaving": "10.9.0.2 Stale Answer", "nope": "NXDOMAIN Stale NXDOMAIN Answer"}
	s.Start()
	s.expect("with its API server", live)

	t.Log("stopped in good order, and started without its API server")
	s.Program.Stop()
	state, _, err := statefile.Read(s.file)
	if err != nil {
		t.Fatal(err)
	}
	if state.Cluster.UID == "" || len(state.Cluster.CAs) != 1 {
		t.Errorf("the file doesn't say whose it is: %+v", state.Cluster)
	}
	plane.KillAPIServer()
	s.Start()
	s.expect("without its API server", stale)
	s.logged("snapshot", "marked as stale")
	s.withoutEDNS(t)

	t.Log("the API server comes back, with other objects than before")
	stop := s.Throughout(func() error {
		return errors.Join(
			s.says("web", "10.9.0.1 Stale Answer", "10.9.0.1 live"),
			s.says("leaving", "10.9.0.2 Stale Answer", "10.9.0.2 live", "NXDOMAIN live"))
	})
	serial := s.serial()
	if err := plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	plane.Delete(t, fleettest.Documents([]string{importOf("leaving", "10.9.0.2")}))
	live["leaving"] = "NXDOMAIN live"
	s.expect("with its API server again", live)
	stop()
	if got := s.serial(); got <= serial {
		t.Errorf("the serial went from %d to %d though the answers changed", serial, got)
	}

	t.Log("killed in the midst of changes")
	for i := range 5 {
		plane.Apply(t, fleettest.Documents([]string{importOf("web", fmt.Sprintf("10.9.1.%d", i))}))
	}
	s.expect("after changes", map[string]string{"web": "10.9.1.4 live"})
	s.Kill()
	plane.KillAPIServer()
	s.Start()
	// Changes of the last half minute may be missing, but what is there is complete.
	s.expect("killed", map[string]string{"nope": stale["nope"]})
	if err := s.says("web", "10.9.0.1 Stale Answer", "10.9.1.0 Stale Answer", "10.9.1.1 Stale Answer", "10.9.1.2 Stale Answer", "10.9.1.3 Stale Answer", "10.9.1.4 Stale Answer"); err != nil {
		t.Error(err)
	}

	t.Log("files of no use")
	good, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, reason string
		data         func() []byte
	}{
		{"cut off", "checksum doesn't match", func() []byte { return good[:len(good)/2] }},
		{"another program's", "isn't a state of a clusterset DNS server", func() []byte { return []byte("{}") }},
		{"another cluster's", "the file is from another cluster", func() []byte {
			return changedState(t, good, func(s *statefile.State) { s.Cluster.CAs = []string{"00"} })
		}},
		{"old", "older than the maximum age of 1h0m0s", func() []byte {
			return changedState(t, good, func(s *statefile.State) { s.Known = s.Known.Add(-2 * time.Hour) })
		}},
	} {
		s.Kill()
		if err := os.WriteFile(s.file, row.data(), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Start()
		s.expect(row.name, map[string]string{"web": "SERVFAIL Not Ready"})
		s.logged("not used", row.reason)
	}
	if err := plane.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.expect("at last", map[string]string{"web": "10.9.1.4 live"})
}

// withoutEDNS asks as a client that doesn't know extended errors, and then over TCP.
func (s *snapshotServer) withoutEDNS(t *testing.T) {
	t.Helper()
	const name = "web.shop.svc.clusterset.local"
	m, err := dns.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion(dns.Fqdn(name), dns.TypeA), s.Addr())
	if err != nil || len(m.Answer) != 1 || len(m.Extra) > 0 || m.Answer[0].Header().Ttl > 30 {
		t.Errorf("without EDNS: %v %v", m, err)
	}
	m, err = fleettest.Exchange(t.Context(), s.Addr(), name, "A", "tcp")
	if err != nil || len(m.Answer) != 1 || told(m) != "Stale Answer" {
		t.Errorf("over TCP: %v %v", m, err)
	}
}

// changedState returns a copy of a file with one change.
func changedState(t *testing.T, file []byte, change func(*statefile.State)) []byte {
	t.Helper()
	s, _, err := statefile.Decode(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	change(s)
	var b bytes.Buffer
	if err := statefile.Encode(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
