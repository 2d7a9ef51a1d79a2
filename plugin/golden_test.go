package clusterset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/manifests"
	"github.com/clusterset/clusterset/internal/statefile"
	"github.com/clusterset/clusterset/test/kube"
)

// The golden corpus runs once for each source of objects, because a name must get the same answer from every source: see testdata/README.md.
// UPDATE=1 rewrites the answers. The corpus states the correct ones, not what the plugin happens to return.

var update = os.Getenv("UPDATE") != ""

// goldenSource provides a case's objects to a clusterset stanza.
type goldenSource struct {
	// name is this source's word in a case's "sources:" line.
	name string
	// provide makes the objects available until the test ends and returns the option that names their location.
	provide func(t *testing.T, dir string, objects []byte) (option string)
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

// TestGoldenStale queries a server that has a state file, whose API server isn't there.
func TestGoldenStale(t *testing.T) {
	runGolden(t, goldenSource{name: "stale", provide: provideStale})
}

// runGolden runs the cases for a source.
func runGolden(t *testing.T, source goldenSource) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range files {
		c, err := readGoldenCase(file)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(c.sources, source.name) {
			ran++
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { c.run(t, source) })
		}
	}
	if ran == 0 {
		t.Errorf("no case is for %s", source.name)
	}
}

// run starts a server for the case and sends its queries in order.
func (c *goldenCase) run(t *testing.T, source goldenSource) {
	log := recordLog(t)
	for _, variable := range c.environment {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	client := newGoldenClient(t, c.start(t, source))
	before := metrics()
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
	for _, line := range c.log {
		if unwanted, no := strings.CutPrefix(line, "! "); !no {
			log.expect(t, line)
		} else if log.has(unwanted) {
			t.Errorf("%s: the log has %q", c.file, unwanted)
		}
	}
	for _, line := range c.metrics {
		words := strings.Fields(line)
		name, labels, want := "coredns_clusterset_"+words[0], words[1:len(words)-1], words[len(words)-1]
		if got := fmt.Sprint(metrics().Sum(name, labels...) - before.Sum(name, labels...)); got != want {
			t.Errorf("%s: %s: got %s", c.file, line, got)
		}
	}
	// Only the case's first source updates the file. A run without UPDATE shows whether the other sources agree.
	if update && source.name == c.sources[0] && !t.Failed() {
		if err := c.write(); err != nil {
			t.Error(err)
		}
	}
}

// start starts CoreDNS with the case's Corefile. Its servers listen on port 0, so that the system picks free ports and no two tests use the
// same one.
func (c *goldenCase) start(t *testing.T, source goldenSource) *liveServer {
	t.Helper()
	dir := t.TempDir()
	for _, f := range c.extra {
		writeFile(t, filepath.Join(dir, f.Name), f.Data)
	}
	roots, err := kube.WriteCertificate(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := startLive(t, strings.ReplaceAll(withSource(c.corefile, source.provide(t, dir, c.objects)), "$DIR", dir))
	s.roots = roots
	return s
}

// check sends a query and returns an error that shows how the reply differs from the expected one.
func (c *goldenCase) check(client *goldenClient, q *goldenQuery) error {
	got, err := client.ask(q)
	if err == nil && got != q.want {
		err = fmt.Errorf("got\n%swant\n%s", got, q.want)
	}
	if err != nil {
		return fmt.Errorf("%s:%d: dig %s: %w", c.file, q.line, q.text, err)
	}
	return nil
}

// provideManifests writes the objects into a directory for the manifests option.
func provideManifests(t *testing.T, dir string, objects []byte) string {
	t.Helper()
	writeFile(t, filepath.Join(dir, "objects", "objects.yaml"), objects)
	return "manifests " + filepath.Join(dir, "objects")
}

// provideUnreachable writes a kubeconfig whose API server doesn't exist.
func provideUnreachable(t *testing.T, _ string, _ []byte) string {
	t.Helper()
	return "kubeconfig " + writeKubeconfig(t, "http://"+freeAddress(t))
}

// provideStale adds a state file with the objects.
func provideStale(t *testing.T, dir string, objects []byte) string {
	t.Helper()
	found, _, err := manifests.Decode("objects.yaml", objects)
	if err != nil {
		t.Fatal(err)
	}
	state := &statefile.State{Known: time.Unix(1, 0)}
	for _, o := range found {
		state.Objects = append(state.Objects, o.Object)
	}
	if err := statefile.Write(filepath.Join(dir, "state"), state); err != nil {
		t.Fatal(err)
	}
	return provideUnreachable(t, dir, nil) + "\n        snapshot " + filepath.Join(dir, "state")
}
