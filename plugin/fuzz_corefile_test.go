package clusterset

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"

	"github.com/clusterset/clusterset/api"
	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/topology"
)

// FuzzCorefile parses stanzas. Each gives options within the documented limits, or an error that names the line. The API
// server of the kubeconfig doesn't exist, so a parser that contacted it would hang until the test times out.
func FuzzCorefile(f *testing.F) {
	const kubeconfig = "testdata/fuzz/kubeconfig"
	if _, err := os.Stat(kubeconfig); err != nil {
		f.Fatal(err)
	}
	lines := []string{
		"manifests .", "manifests . .", "manifests /absent", "kubeconfig " + kubeconfig, "kubeconfig " + kubeconfig + " other", "kubeconfig " + kubeconfig + " absent", "kubeconfig a b c",
		"location c1", "location C1 z1 r1", "location - - r", "location a.b 'z'", `location c1 "" ""`, "location a.b.c", "location c1 z r x", "location",
		"prefer cluster zone region", "prefer zone zone", "prefer", "prefer any", "boundary region", "boundary any", "boundary zone zone",
		"dialect global", "dialect mcs global", "dialect global elsewhere", "dialect x", "dialect", "namespaces a b", "namespaces", "namespaces A",
		"max_answers 1", "max_answers 65536", "max_answers 0", "ttl 0", "ttl 3600", "ttl 3601", "ttl -1", "ttl 5 5", "ttl x",
		"lameduck 1s", "lameduck 1", "startup_timeout 0s", "startup_timeout -1s", "startup_timeout 5", "snapshot f", "snapshot f 1h", "snapshot f 1s", "snapshot . 1h", "fallthrough", "fallthrough a.example", "fallthrough a..b", "nonsense", "{", "}",
	}
	for _, zoneNames := range []string{"", "clusterset.local global", ".", "svc.global", "a..b", "10.0.0.0/9", "dns://x:53 x", `\122.example`, "å.example"} {
		for _, o := range lines {
			f.Add("clusterset " + zoneNames + " {\n  " + o + "\n  manifests .\n}\n")
			f.Add("clusterset " + zoneNames + " {\n  kubeconfig " + kubeconfig + "\n  location c1 z1 r1\n  " + o + "\n}\n")
		}
	}
	f.Add("clusterset")
	f.Add("clusterset clusterset.local clusterset..example {\n manifests .\n}\n")
	f.Add("clusterset " + strings.Repeat("z.", 125) + "z {\n manifests .\n}\n")
	f.Add("clusterset a {\n manifests .\n}\nclusterset b {\n manifests .\n}\n")
	f.Fuzz(func(t *testing.T, stanza string) {
		for _, special := range []string{"/dev", "/proc", "/sys"} {
			if strings.Contains(stanza, special) {
				t.Skip("files that never end")
			}
		}
		controller := func() *caddy.Controller {
			c := caddy.NewTestController("dns", stanza)
			c.ServerBlockKeys = []string{"dns://clusterset.local.:53", "global."}
			return c
		}
		o, err := parse(controller())
		if _, again := parse(controller()); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("read twice: %v, %v", err, again)
		}
		if err != nil {
			if !regexp.MustCompile(`Testfile:\d+ `).MatchString(err.Error()) {
				t.Errorf("error %q doesn't name the line", err)
			}
			return
		}
		checkOptions(t, o)
	})
}

func checkOptions(t *testing.T, o *options) {
	t.Helper()
	if o.ttl > 3600 || o.maxAnswers < 0 || o.maxAnswers > 65535 || o.startupTimeout < 0 || o.lameduck < 0 {
		t.Errorf("ttl %d, max_answers %d, startup_timeout %v, lameduck %v", o.ttl, o.maxAnswers, o.startupTimeout, o.lameduck)
	}
	if (o.manifests == "") == (o.kubeconfig == "") || (o.config == nil) != (o.kubeconfig == "") {
		t.Errorf("sources %q and %q", o.manifests, o.kubeconfig)
	}
	if o.snapshot.path != "" && (o.manifests != "" || o.snapshot.maxAge < 0) {
		t.Errorf("snapshot %s of %q", o.snapshot, o.manifests)
	}
	if o.namespaces != nil && len(o.namespaces) == 0 {
		t.Error("no namespaces: nothing would be served")
	}
	for _, ns := range o.namespaces {
		if err := api.CheckLabel(ns); err != nil {
			t.Errorf("namespace %q %v", ns, err)
		}
	}
	if c := o.location.Cluster; c != "" && api.CheckClusterName(c) != nil || api.CheckLocation(o.location.Zone) != nil || api.CheckLocation(o.location.Region) != nil {
		t.Errorf("location %q", o.location)
	}
	tiers := slices.Clone(o.policy.Prefer)
	slices.Sort(tiers)
	if len(slices.Compact(tiers)) != len(o.policy.Prefer) || slices.Contains(tiers, topology.Any) || !o.location.Has(o.policy.Boundary) {
		t.Errorf("policy %v at %s", o.policy, o.location)
	}
	if len(o.zones) == 0 {
		t.Error("no zones")
	}
	for i, z := range o.zones {
		if i > 0 && len(z.name) > len(o.zones[i-1].name) {
			t.Errorf("zone %s after %s, which is shorter", z.name, o.zones[i-1].name)
		}
		if z.dialect > index.Global {
			t.Errorf("zone %+v", *z)
		}
		for _, name := range []string{z.name, z.ns, z.mbox, "dns-version." + suffix(z.name)} {
			if got, ok := asReceived(name); !ok || got != name {
				t.Errorf("zone %q: no packet can hold the name %q", z.name, name)
			}
		}
		if o.zones.match(z.name) != z {
			t.Errorf("zone %q is not found", z.name)
		}
	}
}
