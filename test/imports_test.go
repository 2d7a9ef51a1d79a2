// Package test checks rules about the module as a whole: which packages may depend on which.
package test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/clusterset/clusterset/"

// rule says that no package in from depends on a package in without, directly or through others. A path stands for its
// package and all packages below it. The paths in from are relative to the module.
type rule struct {
	from, without []string
	but           string // a package below one of from that the rule isn't about
	why           string
}

const (
	clientGo          = "k8s.io/client-go"
	controllerRuntime = "sigs.k8s.io/controller-runtime"
	miekgDNS          = "github.com/miekg/dns"
	coreDNS           = "github.com/coredns/coredns"
)

var rules = []rule{
	{
		from: []string{"plugin", "cmd/coredns"}, without: []string{controllerRuntime},
		why: "it and the kubernetes plugin would fight over client-go's process-wide metrics registration",
	},
	{
		from: []string{"plugin", "cmd/coredns"}, without: []string{module + "exporter", module + "importer", module + "hub", module + "internal/merge", module + "internal/connect", module + "cli", module + "cmd/clusterset"},
		why: "packets from strangers and hub credentials never share a process",
	},
	{
		from: []string{"internal/topology", "internal/policy", "internal/index", "internal/merge", "internal/record", "internal/manifests", "internal/mcs", "internal/text", "internal/near", "internal/labels", "internal/kubeproxy", "cli/place", "cli/preview", "hub/liveness", "exporter/membership", "internal/verdict", "internal/beacon", "internal/damping", "internal/door"}, but: "internal/door/store", without: []string{clientGo, controllerRuntime},
		why: "the middle is pure: values in, values out",
	},
	{
		from: []string{"internal", "cli"}, without: []string{miekgDNS, coreDNS},
		why: "what is said in DNS is said by the plugin",
	},
	{
		from: []string{"internal"}, without: []string{module + "exporter", module + "importer", module + "hub", module + "cli", module + "cmd"},
		why: "what everyone builds on knows none of its users",
	},
	{
		from: []string{"exporter", "importer", "hub", "prober"}, without: []string{module + "cli", module + "cmd"},
		why: "a controller runs without a person",
	},
	{
		from: []string{"internal/topology"}, without: []string{"k8s.io", "sigs.k8s.io", module + "internal", module + "api"},
		why: "it is the innermost package",
	},
	{
		from: []string{"internal/index"}, without: []string{module + "internal/merge"},
		why: "the data plane reads what the control plane wrote, not how it came to it",
	},
	{
		from: []string{"internal/merge"}, without: []string{module + "internal/index"},
		why: "the control plane knows nothing of answers",
	},
	{from: []string{"exporter"}, without: []string{module + "importer", module + "hub", module + "prober"}, why: "a controller stands alone"},
	{from: []string{"importer"}, without: []string{module + "exporter", module + "hub", module + "prober"}, why: "a controller stands alone"},
	{from: []string{"hub"}, without: []string{module + "exporter", module + "importer", module + "prober"}, why: "a controller stands alone"},
	{from: []string{"prober"}, without: []string{module + "exporter", module + "importer", module + "hub"}, why: "a controller stands alone"},
	{
		from: []string{"importer/desired"}, without: []string{clientGo, controllerRuntime, module + "importer/effective"},
		why: "what the importer writes is computed from values alone",
	},
	{
		from: []string{"exporter", "importer", "hub", "prober", "cli", "cmd/clusterset"}, without: []string{coreDNS, module + "plugin"},
		why: "the control plane answers no queries",
	},
	{
		from: []string{"api"}, without: []string{clientGo, controllerRuntime, miekgDNS, coreDNS, module + "internal", module + "plugin"},
		why: "whoever uses our kinds gets types, and no client",
	},
	{
		from: []string{"plugin", "cmd", "cli", "exporter", "importer", "hub", "prober", "internal", "api"}, without: []string{module + "test", module + "hack"},
		why: "tests stay out of the binaries",
	},
	{
		from: []string{"plugin", "cmd/clusterset", "cli", "exporter", "importer", "hub", "prober", "internal", "api"}, without: []string{"testing"},
		why: "tests stay out of the binaries", // cmd/coredns is exempt: one of CoreDNS's plugins imports testing
	},
}

func TestPackagesDependOnlyOnWhatTheyMay(t *testing.T) {
	deps := dependencies(t)
	for _, r := range rules {
		applied := false
		for pkg, on := range deps {
			name := strings.TrimPrefix(pkg, module)
			if !within(name, r.from) || name == r.but {
				continue
			}
			applied = true
			for _, dep := range on {
				if within(dep, r.without) {
					t.Errorf("%s depends on %s, but %s", name, dep, r.why)
					break // report only the first; related packages usually come with it
				}
			}
		}
		if !applied {
			t.Errorf("no package begins with any of %q: the rule is about nothing", r.from)
		}
	}
}

// within reports whether path is one of the paths or below one.
func within(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

// dependencies returns the dependencies of each of the module's packages, without those of tests.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./...")
	cmd.Dir = ".."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	deps := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		deps[words[0]] = words[1:]
	}
	return deps
}
