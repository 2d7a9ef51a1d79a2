package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	usesRE   = regexp.MustCompile(`(?m)\buses: *(.*)$`)
	pinnedRE = regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	makeRE   = regexp.MustCompile(`\bmake ([a-z-]+)\b`)
	testRE   = regexp.MustCompile(`(?m)^(.*)\bmake (test(?:-long|-oldest)?)$`)
)

// TestWorkflows checks what actionlint doesn't. Actions are pinned to a commit, because a tag can be moved. Jobs may only read,
// unless they ask for more themselves. The Makefile has every target that a workflow makes. Tests run as root, for their network namespaces, and
// none is skipped.
func TestWorkflows(t *testing.T) {
	makefile := read(t, filepath.Join(root, "Makefile"))
	tests := 0
	for _, text := range readAll(t, ".github/workflows/*.yaml") {
		name := found(`(?m)^name: (.*)$`, text)[0]
		for _, m := range usesRE.FindAllStringSubmatch(text, -1) {
			if !pinnedRE.MatchString(m[1]) {
				t.Errorf("%s uses %s; want owner/action@commit # v1.2.3", name, m[1])
			}
		}
		if !strings.Contains(text, "\npermissions:\n  contents: read\n\n") {
			t.Errorf("%s gives its jobs more than permissions: {contents: read}", name)
		}
		for _, m := range makeRE.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n.PHONY: "+m[1]+"\n") {
				t.Errorf("%s makes %s, and the Makefile has no such target", name, m[1])
			}
		}
		for _, m := range testRE.FindAllStringSubmatch(text, -1) {
			tests++
			if !strings.HasSuffix(m[1], `sudo -E env "PATH=$PATH" `) {
				t.Errorf("%s makes %s without root", name, m[2])
			}
			for _, variable := range []string{"CLUSTERSET_DATAPATH", "CLUSTERSET_CHROMIUM"} {
				if !strings.Contains(text, "\nenv:\n") || !strings.Contains(text, "\n  "+variable+": required\n") {
					t.Errorf("%s makes %s without %s=required", name, m[2], variable)
				}
			}
		}
	}
	if tests != 3 {
		t.Errorf("%d jobs run tests, want test, test-long and test-oldest", tests)
	}
}
