package clusterset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The golden corpus: each testdata/*.txtar has a Corefile, objects, and queries with their answers, in the language that
// testdata/README.md describes. The tests start a real CoreDNS for each file and query it over real sockets. The corpus runs once
// for each source of objects, because a name must get the same answer from every source.
//
// UPDATE=1 go test ./plugin -run Golden rewrites the answers. Review the diff before you keep it: the corpus states the correct
// answers, not what the plugin happens to return.

var update = os.Getenv("UPDATE") != ""

// goldenSource provides a case's objects to a clusterset stanza.
type goldenSource struct {
	// name is this source's word in a case's "sources:" line.
	name string
	// provide makes the objects available until the test ends and returns the option that names their location.
	provide func(t *testing.T, dir string, objects []byte) (option string)
	// replay, if set, removes the objects and creates them again while the server runs, and waits until the answers are correct
	// again.
	replay func(t *testing.T, c *goldenCase, client *goldenClient)
}

func TestGoldenManifests(t *testing.T) {
	runGolden(t, goldenSource{name: "manifests", provide: provideManifests})
}

func TestGoldenKubernetes(t *testing.T) {
	runGolden(t, startGoldenKubernetes(t))
}

// TestGoldenUnreachable queries a server whose API server has never been reachable.
func TestGoldenUnreachable(t *testing.T) {
	runGolden(t, goldenSource{name: "unreachable", provide: provideUnreachable})
}

// runGolden runs the cases for a source.
func runGolden(t *testing.T, source goldenSource) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in testdata: %v", err)
	}
	ran, asked := 0, 0
	for _, file := range files {
		c, err := readGoldenCase(file)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(c.sources, source.name) {
			continue
		}
		ran++
		asked += len(c.queries)
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { c.run(t, source) })
	}
	if ran == 0 {
		t.Errorf("no case is for %s", source.name)
	}
	t.Logf("%d cases, %d queries", ran, asked)
}

// run starts a server for the case and sends its queries in order.
func (c *goldenCase) run(t *testing.T, source goldenSource) {
	dir := t.TempDir()
	server := startGoldenServer(t, dir, c, source)
	client := newGoldenClient(t, server)
	for i := range c.queries {
		q := &c.queries[i]
		if update {
			got, err := client.ask(q)
			if err != nil {
				t.Errorf("%s:%d: dig %s: %v", c.file, q.line, q.text, err)
			}
			q.want = got
		} else if err := c.check(client, q); err != nil {
			t.Error(err)
		}
	}
	if source.replay != nil && !update && !t.Failed() {
		source.replay(t, c, client)
	}
	if err := client.drain(); err != nil {
		t.Errorf("%s: %v", c.file, err)
	}
	// Only the case's first source updates the file. A run without UPDATE shows whether the other sources agree.
	if update && source.name == c.sources[0] && !t.Failed() {
		if err := c.write(); err != nil {
			t.Error(err)
		}
	}
}

// check sends a query and returns an error that shows how the reply differs from the expected one.
func (c *goldenCase) check(client *goldenClient, q *goldenQuery) error {
	got, err := client.ask(q)
	if err != nil {
		return fmt.Errorf("%s:%d: dig %s: %w", c.file, q.line, q.text, err)
	}
	if got != q.want {
		return fmt.Errorf("%s:%d: dig %s\n(- is missing, + is too much)\n%s", c.file, q.line, q.text, diffLines(q.want, got))
	}
	return nil
}

// diffLines returns the lines of two texts: - marks a line that only want has, + one that only got has. Both are sorted within their
// sections, so that a simple merge finds the longest common subsequence.
func diffLines(want, got string) string {
	a, b := strings.Split(strings.TrimSpace(want), "\n"), strings.Split(strings.TrimSpace(got), "\n")
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out.WriteString("  " + a[i] + "\n")
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			out.WriteString("- " + a[i] + "\n")
			i++
		default:
			out.WriteString("+ " + b[j] + "\n")
			j++
		}
	}
	return out.String()
}
