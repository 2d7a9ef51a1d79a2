package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
)

// A server that starts while its API server is down gives the last answers that its predecessor knew, and marks them as stale. It switches to
// live data in one step. The plugin's tests show which files it refuses, and that a killed server leaves a whole one.
func TestDNSStartsFromItsSnapshot(t *testing.T) {
	f := outages(t)
	ns, m := f.Namespace("snapshot"), f.Member("beijing")
	imported := func(name, ip string) string {
		return fmt.Sprintf(`{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceImport, metadata: {namespace: %s, name: %s}, spec: {type: ClusterSetIP, ips: [%s], ports: [{port: 80}]}}`, ns, name, ip)
	}
	web, leaving := imported("web", "10.9.0.1"), imported("leaving", "10.9.0.2")
	m.Apply(web, leaving)
	t.Cleanup(func() { m.Remove(web, leaving) })
	base := filepath.Join(t.TempDir(), "dns")
	s := fleettest.NewDNS(fleet.NewDNS(m.Cluster.Cluster, fleettest.Binaries(), fleet.Location{}, base)).For(t)
	args := s.Program.Args
	s.Program.Args = func() ([]string, error) {
		words, err := args()
		corefile, errRead := os.ReadFile(base + ".Corefile")
		with := strings.Replace(string(corefile), "location - - -", fmt.Sprintf("ttl 600\n        startup_timeout 2s\n        snapshot %s.snapshot 1h", base), 1)
		return words, errors.Join(err, errRead, os.WriteFile(base+".Corefile", []byte(with), 0o600))
	}
	t.Cleanup(s.Kill)
	// says returns nil if a name's A record, or why there is none, and what the answer says about itself, are one of those wanted.
	says := func(name string, want ...string) error {
		r, err := s.Reply(name+"."+ns+".svc.clusterset.local", "A")
		if err != nil {
			return err
		}
		words := []string{dns.RcodeToString[r.Rcode]}
		for _, rr := range r.Answer {
			words = []string{rr.(*dns.A).A.String(), fmt.Sprint(rr.Header().Ttl)}
		}
		if opt := r.IsEdns0(); opt != nil {
			for _, o := range opt.Option {
				if ede, ok := o.(*dns.EDNS0_EDE); ok {
					words = append(words, dns.ExtendedErrorCodeToString[ede.InfoCode])
				}
			}
		}
		if got := strings.Join(words, " "); !slices.Contains(want, got) {
			return fmt.Errorf("dig %s: got %s, want one of %q", name, got, want)
		}
		return nil
	}
	expect := func(web, leaving, nope string) {
		t.Helper()
		kube.Eventually(t, func() error { return errors.Join(says("web", web), says("leaving", leaving), says("nope", nope)) })
	}
	serial := func() uint32 {
		r, err := s.Reply("clusterset.local", "SOA")
		if err != nil || len(r.Answer) != 1 {
			t.Fatalf("SOA: %v %v", r, err)
		}
		return r.Answer[0].(*dns.SOA).Serial
	}
	s.Start()
	expect("10.9.0.1 600", "10.9.0.2 600", "NXDOMAIN")
	s.Program.Stop()
	m.Plane.KillAPIServer()
	s.Start()
	expect("10.9.0.1 30 Stale Answer", "10.9.0.2 30 Stale Answer", "NXDOMAIN Stale NXDOMAIN Answer")

	stop := s.Throughout(func() error {
		return errors.Join(says("web", "10.9.0.1 30 Stale Answer", "10.9.0.1 600"),
			says("leaving", "10.9.0.2 30 Stale Answer", "10.9.0.2 600", "NXDOMAIN"))
	})
	before := serial()
	m.StartAPIServer()
	m.Remove(leaving)
	expect("10.9.0.1 600", "NXDOMAIN", "NXDOMAIN")
	stop()
	if after := serial(); after <= before {
		t.Errorf("the serial went from %d to %d though the answers changed", before, after)
	}
}
