package docs

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rules are the kinds of blocks that a page may have, and how each is tested. A block of another kind fails TestEveryBlockHasARule,
// because a block that nothing runs becomes wrong unnoticed.
var rules = map[string]struct {
	what  string
	check func(*testing.T, block)
}{
	"corefile":          {"a server starts with it and answers (TestCorefilesStart)", nil},
	"yaml":              {"a real API server accepts each object, with strict validation (TestManifestsAreAccepted)", nil},
	"yaml values":       {"the chart is rendered with it (TestValues)", nil},
	"console":           {"its commands are typed, and print what it shows (TestSessions)", inSession},
	"console uninstall": {"the same, when all pages have been (TestSessions)", inSession},
	"console elsewhere": {"another test runs each command", runElsewhere},
	"conf":              {"a server with it has the fault that the page describes (TestUpstreamFaults)", nil},
	"text":              {"a drawing, and nothing else", isDrawing},
	"txt":               {"the syntax in the plugin's page names the options that the parser knows", isSyntax},
}

// elsewhere maps the beginning of a command to the test that runs it, or does the same. A Makefile target and a call of go test need no
// entry; the test only checks that what they run exists.
var elsewhere = map[string]string{
	"clusterset console --hub-context hub ":                    "TestLive",
	"clusterset console --manifests examples/preview":          "TestExample",
	"clusterset test --context beijing --context shanghai":     "TestVerdicts",
	"dig @127.0.0.1 -p 1053 ":                                  "TestReadmeDigs",
	"kubectl --context beijing -n shop get serviceexport web ": "TestVisible",

	"kubectl --context hub -n clusterset-member-shanghai get secret ": "TestOnARealCluster",
	"kubectl --context shanghai -n clusterset-system ":                "TestOnARealCluster",
	"rm shanghai.kubeconfig":                                          "TestOnARealCluster",

	"kubectl --context beijing get memberclusters -o name |\n": "TestLeftAndLost",
	"kubectl --context OLD get memberclusters -o name |\n":     "TestLeftAndLost",
	"kubectl --context OLD delete memberclusters --all":        "TestLeftAndLost",
	"kubectl --context beijing patch membercluster shanghai ":  "TestCommunities",

	"kubectl --context chaoyang --namespace shop ": "TestEtcd",
	"etcdctl member ": "TestEtcd",
	"kubectl --context xicheng --namespace shop ": "TestPostgreSQL",
	"kubectl --context minhang --namespace shop ": "TestPostgreSQL",
}

func TestEveryBlockHasARule(t *testing.T) {
	seen := map[string]int{}
	for _, page := range pages(t) {
		if generated[page] != "" {
			continue
		}
		for _, line := range unfenced(read(t, filepath.Join(root, page))) {
			t.Errorf("%s:%d: an indented block, which nothing tests; put it between fences", page, line)
		}
		for _, b := range blocks(t, page) {
			kind := strings.TrimSpace(b.kind + " " + b.args)
			rule, ok := rules[kind]
			if !ok {
				t.Errorf("%s: no rule says how a block %q is tested; there are %q", b, kind, slices.Sorted(maps.Keys(rules)))
				continue
			}
			seen[kind]++
			if rule.check != nil {
				rule.check(t, b)
			}
		}
	}
	if seen["console"] == 0 || seen["corefile"] == 0 || seen["yaml"] == 0 {
		t.Errorf("blocks found: %v", seen)
	}
}

// unfenced returns the lines on which Markdown begins a block without fences, counted from 1.
func unfenced(page string) (lines []int) {
	_, prose := parse(page)
	empty := true
	for i, line := range strings.Split(prose, "\n") {
		if empty && strings.HasPrefix(line, "    ") {
			lines = append(lines, i+1)
		}
		empty = line == ""
	}
	return lines
}

func TestUnfenced(t *testing.T) {
	page := "1. item\n   goes on\n\n   and on\n\n       make run\n       make test\n\n```text\n\n    fenced\n```\n\n    at the end\n"
	if got := unfenced(page); !slices.Equal(got, []int{6, 14}) {
		t.Errorf("got %v, want lines 6 and 14", got)
	}
}

// generated maps a page that a program writes to the test that compares it with the program's output.
var generated = map[string]string{
	"docs/api.md":     "TestAPIPageIsFresh",
	"docs/demo.md":    "TestTranscriptIsWhatTheDemoShows",
	"docs/flags.md":   "TestFlagsPageIsFresh",
	"docs/metrics.md": "TestPageIsFresh",
}

func TestGeneratedPagesAreCompared(t *testing.T) {
	for page, test := range generated {
		if !isTest(test) {
			t.Errorf("%s: there is no test %s", page, test)
		}
	}
}

func inSession(t *testing.T, b block) {
	if !slices.Contains(sessions, b.page) {
		t.Errorf("%s: the page is none of those whose commands are typed, %q", b, sessions)
	}
}

func runElsewhere(t *testing.T, b block) {
	makefile := read(t, filepath.Join(root, "Makefile"))
steps:
	for _, step := range steps(t, b) {
		if m := makeRE.FindStringSubmatch(step.command); m != nil && strings.HasPrefix(step.command, "make ") {
			if !strings.Contains(makefile, "\n.PHONY: "+m[1]+"\n") {
				t.Errorf("%s: the Makefile has no target %s", step.place, m[1])
			}
			continue
		}
		if strings.Contains(step.command, "go test ") {
			hasTests(t, step)
			continue
		}
		for beginning, test := range elsewhere {
			if strings.HasPrefix(step.command, beginning) {
				if !isTest(test) {
					t.Errorf("%s: there is no test %s", step.place, test)
				}
				continue steps
			}
		}
		t.Errorf("%s: nothing says which test runs %q", step.place, step.command)
	}
}

// hasTests requires that the last argument of go test is a package, and that this has a test, or a benchmark, for each part of the pattern.
func hasTests(t *testing.T, s step) {
	t.Helper()
	words := strings.Fields(s.command)
	what, at := "Benchmark", slices.Index(words, "-bench")
	if at < 0 {
		what, at = "Test", slices.Index(words, "-run")
	}
	pkg := words[len(words)-1]
	for part := range strings.SplitSeq(strings.Trim(words[at+1], "'"), "|") {
		part, _, _ = strings.Cut(part, "/") // what follows is a subtest
		if !grep(`^func `+what+`\w*`+strings.TrimPrefix(part, what), filepath.Join(root, pkg)) {
			t.Errorf("%s: %s has no %s that matches %s", s.place, pkg, strings.ToLower(what), part)
		}
	}
}

// isTest reports whether the repository has a test of that name.
func isTest(name string) bool { return grep("^func "+name+`\(t \*testing\.T\)`, root) }

// grep reports whether a test in a folder has a line.
func grep(line, folder string) bool {
	return exec.Command("grep", "-rqE", "--include=*_test.go", line, folder).Run() == nil
}

// isDrawing requires lines or arrows. Commands and their output belong in a console block, where they are run.
func isDrawing(t *testing.T, b block) {
	if !strings.ContainsAny(b.text, "─►│") || strings.Contains(b.text, "$ ") {
		t.Errorf("%s: a text block is for drawings; commands and what they print are console blocks", b)
	}
}
