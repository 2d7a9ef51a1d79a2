package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	containerPortRE = regexp.MustCompile(`containerPort: (\d+)`)
	dnsPortRE       = regexp.MustCompile(`ternary (\d+) (\d+) \(eq \.Values\.dns\.mode`)
	beaconPortRE    = regexp.MustCompile(`(?m)^  beacon:\n(?:    .*\n)*?    port: (\d+)$`)
	numberRE        = regexp.MustCompile(`\b\d{2,5}\b`)
)

// The table of ports has every port on which the chart's containers listen, and no other but those of API servers and of OpenShift's DNS.
func TestPortsPage(t *testing.T) {
	want := map[int]bool{443: true, 6443: true, 5353: true}
	templates := filepath.Join(root, "charts", "clusterset", "templates")
	for _, file := range []string{"_pod.tpl", "_corefile.tpl", filepath.Join("dns", "deployment.yaml")} {
		text := read(t, filepath.Join(templates, file))
		for _, m := range slices.Concat(containerPortRE.FindAllStringSubmatch(text, -1), dnsPortRE.FindAllStringSubmatch(text, -1)) {
			for _, port := range m[1:] {
				n, _ := strconv.Atoi(port)
				want[n] = true
			}
		}
	}
	for _, m := range beaconPortRE.FindAllStringSubmatch(read(t, filepath.Join(root, "charts", "clusterset", "values.yaml")), -1) {
		n, _ := strconv.Atoi(m[1])
		want[n] = true
	}
	if len(want) < 9 {
		t.Fatalf("ports in the chart: %v; the expressions that find them are wrong", want)
	}
	page := read(t, filepath.Join(root, "docs", "sizing.md"))
	_, section, _ := strings.Cut(page, "\n## Ports and firewalls\n")
	section, _, _ = strings.Cut(section, "\n## ")
	have := map[int]bool{}
	for _, line := range strings.Split(section, "\n") {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			for _, port := range numberRE.FindAllString(cells[3], -1) {
				n, _ := strconv.Atoi(port)
				have[n] = true
			}
		}
	}
	for n := range want {
		if !have[n] {
			t.Errorf("docs/sizing.md lacks port %d in its table of ports", n)
		}
	}
	for n := range have {
		if !want[n] {
			t.Errorf("docs/sizing.md has port %d, on which nothing of the chart listens", n)
		}
	}
}
