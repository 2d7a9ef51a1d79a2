package docs

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var dependencyRE = regexp.MustCompile(`(?m)^\| ([a-zA-Z0-9][^ |]*\.[^ |]+/[^ |]+) \| .*\S.* \|$`)

// docs/dependencies.md names the modules and tools that each go.mod requires directly, and no others. A section whose title ends in
// "module x" covers x/go.mod, "Tools" covers the modules without a section, and the other sections cover the root module.
func TestDependenciesPage(t *testing.T) {
	named := map[string][]string{}
	for _, section := range strings.Split(read(t, filepath.Join(root, "docs", "dependencies.md")), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		module := "."
		if _, name, ok := strings.Cut(title, ": module "); ok {
			module = name
		} else if title == "Tools" {
			module = "tools"
		}
		for _, row := range dependencyRE.FindAllStringSubmatch(text, -1) {
			named[module] = append(named[module], row[1])
		}
	}
	required := map[string][]string{}
	for _, path := range modules(t) {
		module := filepath.Dir(path)
		if !slices.Contains([]string{".", "image", "test/chart"}, module) {
			module = "tools"
		}
		required[module] = append(required[module], direct(t, filepath.Join(root, path))...)
	}
	for module, want := range required {
		have := named[module]
		for _, name := range want {
			if !slices.Contains(have, name) {
				t.Errorf("%s requires %s, and docs/dependencies.md doesn't say why", module, name)
			}
		}
		for _, name := range have {
			if !slices.Contains(want, name) {
				t.Errorf("docs/dependencies.md says why %s requires %s, which it doesn't", module, name)
			}
		}
	}
}

// modules returns the paths of all go.mod files.
func modules(t *testing.T) []string {
	t.Helper()
	paths := []string{"go.mod"}
	for _, pattern := range []string{"*/go.mod", "*/*/go.mod", "*/*/*/go.mod"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			name, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, filepath.ToSlash(name))
		}
	}
	return paths
}

// direct returns the modules that a go.mod requires directly, and its tools.
func direct(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", path).Output()
	if err != nil {
		t.Fatalf("go mod edit -json %s: %v", path, err)
	}
	var m struct {
		Require []struct {
			Path     string
			Indirect bool
		}
		Tool []struct{ Path string }
	}
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range m.Require {
		if !r.Indirect {
			all = append(all, r.Path)
		}
	}
	for _, tool := range m.Tool {
		all = append(all, tool.Path)
	}
	return all
}
