package docs

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rules are the kinds of blocks that a page may have, and how each is tested. A block of another kind fails TestEveryBlockHasARule,
// because a block that nothing runs becomes wrong unnoticed. "console TestName" is a block whose commands are run by that test, or done by it.
var rules = map[string]func(*testing.T, block){
	"corefile":          nil,         // a server starts with it and answers (TestCorefilesStart)
	"yaml":              nil,         // a real API server accepts each object, with strict validation (TestManifestsAreAccepted)
	"yaml values":       nil,         // the chart is rendered with it (TestValues)
	"console":           inSession,   // its commands are typed, and print what it shows (TestSessions)
	"console uninstall": inSession,   // the same, when all pages have been
	"console elsewhere": runsTargets, // it runs targets of the Makefile and tests
	"conf":              nil,         // a server with it has the fault that the page describes (TestUpstreamFaults)
	"text":              nil,         // a drawing
	"txt":               isSyntax,    // the syntax in the plugin's page names the options that the parser knows
}

func TestEveryBlockHasARule(t *testing.T) {
	for _, page := range pages(t) {
		if slices.Contains(generated, page) {
			continue
		}
		for _, b := range blocks(t, page) {
			check, ok := rules[strings.TrimSpace(b.kind+" "+b.args)]
			if check != nil {
				check(t, b)
			}
			// grep searches all tests of the repository.
			if !ok && !(b.kind == "console" && strings.HasPrefix(b.args, "Test") && grep("^func "+b.args+`\(t \*testing\.T\)`, root)) {
				t.Errorf("%s: neither a rule nor a test says how a block %q %q is tested", b, b.kind, b.args)
			}
		}
	}
}

// generated are the pages that a program writes, and other tests compare with its output.
var generated = []string{"docs/api.md", "docs/demo.md", "docs/flags.md", "docs/metrics.md"}

func inSession(t *testing.T, b block) {
	if !slices.Contains(sessions, b.page) {
		t.Errorf("%s: the page is none of those whose commands are typed, %q", b, sessions)
	}
}

// runsTargets requires that the Makefile has each target. Of go test the last argument is a package, which has a test, or a benchmark, for each
// part of the pattern.
func runsTargets(t *testing.T, b block) {
	makefile := read(t, filepath.Join(root, "Makefile"))
	for _, s := range steps(t, b) {
		if m := makeRE.FindStringSubmatch(s.command); m != nil && strings.HasPrefix(s.command, "make ") {
			if !strings.Contains(makefile, "\n.PHONY: "+m[1]+"\n") {
				t.Errorf("%s: the Makefile has no target %s", s.place, m[1])
			}
			continue
		}
		words := strings.Fields(s.command)
		what, at := "Benchmark", slices.Index(words, "-bench")
		if at < 0 {
			what, at = "Test", slices.Index(words, "-run")
		}
		if at < 0 {
			t.Errorf("%s: which test runs %q?", s.place, s.command)
			continue
		}
		pkg := words[len(words)-1]
		for part := range strings.SplitSeq(strings.Trim(words[at+1], "'"), "|") {
			part, _, _ = strings.Cut(part, "/") // what follows is a subtest
			if !grep(`^func `+what+`\w*`+strings.TrimPrefix(part, what), filepath.Join(root, pkg)) {
				t.Errorf("%s: %s has no %s that matches %s", s.place, pkg, strings.ToLower(what), part)
			}
		}
	}
}

// grep reports whether a test in a folder has a line.
func grep(line, folder string) bool {
	return exec.Command("grep", "-rqE", "--include=*_test.go", line, folder).Run() == nil
}
