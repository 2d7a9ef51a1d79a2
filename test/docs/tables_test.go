package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/importer"
	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/merge"
	"github.com/clusterset/clusterset/plugin/express"
)

// found returns what the first group of an expression matches in texts, each once.
func found(expression string, texts ...string) (all []string) {
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(strings.Join(texts, "\n"), -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// section returns what is below a heading, up to the next one of the same level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, ok := strings.Cut(read(t, filepath.Join(root, page)), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// readAll reads the files that match a pattern.
func readAll(t *testing.T, pattern string) (texts []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	for _, path := range paths {
		texts = append(texts, read(t, path))
	}
	return texts
}

// same fails the test unless a page has what the code has, of which there is some at least.
func same(t *testing.T, what string, page, code []string, least int) {
	t.Helper()
	if len(code) < least {
		t.Errorf("%s: the code has %q; the expression that finds them is wrong", what, code)
	}
	for _, name := range code {
		if !slices.Contains(page, name) {
			t.Errorf("%s: the page lacks %s", what, name)
		}
	}
	for _, name := range page {
		if !slices.Contains(code, name) {
			t.Errorf("%s: the page has %s, and the code doesn't", what, name)
		}
	}
}

// Every check of clusterset doctor has a section in docs/troubleshooting.md, to which its problems link. Every section under "What doctor checks"
// belongs to a check.
func TestDoctorPage(t *testing.T) {
	same(t, "doctor's checks", found(`(?m)^### (\S+)$`, section(t, "docs/troubleshooting.md", "What doctor checks")),
		found(`\{"(\w+)", check[A-Z]`, readAll(t, "cli/doctor/*.go")...), 10)
}

// The table of ports has every port on which the chart's containers listen, and no other but those of API servers and of OpenShift's DNS.
func TestPortsPage(t *testing.T) {
	chart := strings.Join(append(readAll(t, "charts/clusterset/templates/_*.tpl"), readAll(t, "charts/clusterset/templates/dns/deployment.yaml")...), "\n")
	want := slices.Concat(
		[]string{"443", "6443", "5353"}, found(`containerPort: (\d+)`, chart),
		found(`ternary (\d+) \d+ \(eq \.Values\.dns\.mode`, chart), found(`ternary \d+ (\d+) \(eq \.Values\.dns\.mode`, chart),
		found(`(?m)^  beacon:\n(?:    .*\n)*?    port: (\d+)$`, readAll(t, "charts/clusterset/values.yaml")...),
	)
	var have []string
	for line := range strings.Lines(section(t, "docs/sizing.md", "Ports and firewalls")) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			have = append(have, found(`\b(\d{2,5})\b`, cells[3])...)
		}
	}
	same(t, "ports", have, want, 9)
}

// The syntax in the plugin's page has the options of the parser.
func isSyntax(t *testing.T, b block) {
	same(t, "options", found(`(?m)^    ([a-z_]+)`, b.text), found(`(?m)^\t\t"([a-z_]+)": +p\.`, readAll(t, "plugin/parse.go")...), 1)
}

// The page of limits has the numbers of the code. Limits that no package exports aren't compared.
func TestLimitsPage(t *testing.T) {
	has := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9,]+) \|`).FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "sizing.md")), -1) {
		has[row[1]] = strings.ReplaceAll(row[2], ",", "")
	}
	for what, limit := range map[string]int{
		"ports of a service":                                            api.MaxPorts,
		"slices of one service from one cluster":                        merge.MaxSlices,
		"endpoints of a GlobalService":                                  api.MaxGlobalServiceEndpoints,
		"exported labels, and exported annotations, of a ServiceExport": api.MaxExportedKeys,
		"services imported from one cluster":                            importer.DefaultMaxServices,
		"length of a cluster's name":                                    api.MaxMemberName,
		"zones of a MemberCluster":                                      clustersetv1alpha1.MaxZones,
		"CIDRs of a MemberCluster":                                      clustersetv1alpha1.MaxCIDRs,
		"bytes of an answer over UDP":                                   express.MaxUDP,
		"size of a manifest or state file, MiB":                         manifests.MaxFile >> 20,
	} {
		if has[what] != strconv.Itoa(limit) {
			t.Errorf("%s: the page has %q, the code %d", what, has[what], limit)
		}
	}
}

// docs/dependencies.md names the modules and tools that each go.mod requires directly, and no others.
func TestDependenciesPage(t *testing.T) {
	named := found(`(?m)^\| ([a-zA-Z0-9][^ |]*\.[^ |]+/[^ |]+) \| .*\S.* \|$`, read(t, filepath.Join(root, "docs", "dependencies.md")))
	var files []string
	for _, pattern := range []string{"go.mod", "*/go.mod", "*/*/go.mod", "*/*/*/go.mod"} {
		files = append(files, readAll(t, pattern)...)
	}
	same(t, "go.mod and docs/dependencies.md", named, found(`(?m)^(?:require |tool |\t)([^\s/]+\.[^\s]+/\S+)(?: v\S+)?$`, files...), 1)
}
