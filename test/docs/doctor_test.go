package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var checkRE = regexp.MustCompile(`\{"(\w+)", check[A-Z]`)

// Every check of clusterset doctor has a section in docs/troubleshooting.md, to which its problems link. Every section under "What doctor checks"
// belongs to a check.
func TestDoctorPage(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "cli", "doctor", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var checks []string
	for _, file := range files {
		for _, m := range checkRE.FindAllStringSubmatch(read(t, file), -1) {
			checks = append(checks, m[1])
		}
	}
	slices.Sort(checks)
	checks = slices.Compact(checks)
	if len(checks) < 10 {
		t.Fatalf("checks found: %q; the expression that finds them is wrong", checks)
	}
	_, page, _ := strings.Cut(read(t, filepath.Join(root, "docs", "troubleshooting.md")), "\n## What doctor checks\n")
	page, _, _ = strings.Cut(page, "\n## ")
	var sections []string
	for _, m := range regexp.MustCompile(`(?m)^### (\S+)$`).FindAllStringSubmatch(page, -1) {
		sections = append(sections, m[1])
	}
	slices.Sort(sections)
	if !slices.Equal(checks, sections) {
		t.Errorf("doctor's checks are %q, docs/troubleshooting.md has sections %q", checks, sections)
	}
}
