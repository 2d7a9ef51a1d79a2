package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	page string // path from the repository's root
	line int    // line of the fence
	kind string // the first word after the fence
	args string // the other words after the fence
	text string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// pages returns the paths of all documentation, from the repository's root.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "plugin/*.md", "plugin/testdata/*.md", "charts/*/*.md", "dashboards/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			all = append(all, strings.TrimPrefix(path, root+"/"))
		}
	}
	return all
}

var fenceRE = regexp.MustCompile("^( *)(```+|~~~+) ?([a-z]*) ?(.*)$")

// blocks returns the fenced blocks of a page.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	var all []block
	var open *block
	var fence, indent string
	var text strings.Builder
	for i, line := range strings.Split(read(t, filepath.Join(root, page)), "\n") {
		m := fenceRE.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open, fence, indent = &block{page: page, line: i + 1, kind: m[3], args: m[4]}, m[1]+m[2], m[1]
			text.Reset()
		case open != nil && line == fence:
			open.text = text.String()
			all = append(all, *open)
			open = nil
		case open != nil:
			text.WriteString(strings.TrimPrefix(line, indent) + "\n")
		}
	}
	if open != nil {
		t.Errorf("%s: the block is never closed", open)
	}
	return all
}

// blocksOf returns the blocks of a kind on all pages, except those on generated pages.
func blocksOf(t *testing.T, kind string) []block {
	t.Helper()
	var all []block
	for _, page := range pages(t) {
		if generated[page] != "" {
			continue
		}
		for _, b := range blocks(t, page) {
			if b.kind == kind {
				all = append(all, b)
			}
		}
	}
	return all
}
