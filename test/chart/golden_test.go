package chart

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	flag.Parse()
	Quiet()
	code := m.Run()
	removeBuilds()
	os.Exit(code)
}

// Each documented set of values renders to the files in testdata. UPDATE=1 rewrites them; review the diff.
func TestGolden(t *testing.T) {
	var files []string
	for _, e := range examples(t) {
		t.Run(e.name, func(t *testing.T) {
			r := render(t, e.Options)
			files = append(files, golden(t, e.name+".yaml", withoutFiles(r.Manifests)), golden(t, e.name+".notes", r.Notes))
		})
	}
	there, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range there {
		if !slices.Contains(files, path) {
			t.Errorf("%s belongs to no example", path)
		}
	}
}

// global is a public top-level domain. The notes of a release that serves all of it tell the user to forward only svc.global.
func TestNotesForwardNoTopLevelDomain(t *testing.T) {
	notes := render(t, Options{"clusterset", "clusterset-system", "dns: {zones: [global, clusterset.local]}", newest}).Notes
	if want := "\n  svc.global:53 clusterset.local:53 {\n"; !strings.Contains(notes, want) {
		t.Errorf("want %q in the notes:\n%s", want, notes)
	}
}

var (
	schemaRE    = regexp.MustCompile(`(?ms)^(kind: CustomResourceDefinition\n.*?^  name: \S+\n).*`)
	dashboardRE = regexp.MustCompile(`(?ms)^(  \S+\.json: \|\n).*`)
)

// withoutFiles removes everything but the metadata from each CustomResourceDefinition, and everything but the name from each
// dashboard. Other tests compare the rest with the files (TestCRDsAreFresh, TestDashboardsAreShipped), and it would make each
// golden file ten times as long.
func withoutFiles(manifests string) string {
	documents := strings.SplitAfter(manifests, "\n---\n")
	for i, document := range documents {
		end := ""
		if strings.HasSuffix(document, "---\n") {
			end = "---\n"
		}
		document = schemaRE.ReplaceAllString(strings.TrimSuffix(document, "---\n"), "${1}# …\n")
		documents[i] = dashboardRE.ReplaceAllString(document, "${1}    …\n") + end
	}
	return strings.Join(documents, "")
}

func golden(t *testing.T, name, got string) string {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if diff := cmp.Diff(read(t, path), got); diff != "" {
		t.Errorf("%s (-want +got; UPDATE=1 rewrites it):\n%s", path, diff)
	}
	return path
}
