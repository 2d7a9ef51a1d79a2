package docs

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
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

	indent, fence string // fence is that of a block that isn't closed
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
	all, _ := parse(read(t, filepath.Join(root, page)))
	for i := range all {
		if all[i].page = page; all[i].fence != "" {
			t.Errorf("%s: the block is never closed", all[i])
		}
	}
	return all
}

// parse returns the fenced blocks of a page, and its text with a fence for each of their lines.
func parse(page string) (all []block, prose string) {
	var open *block
	var text strings.Builder
	for i, line := range strings.Split(page, "\n") {
		m := fenceRE.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			all = append(all, block{line: i + 1, kind: m[3], args: m[4], indent: m[1], fence: m[1] + m[2]})
			open = &all[len(all)-1]
		case open == nil:
			text.WriteString(line + "\n")
			continue
		case line == open.fence:
			open.fence, open = "", nil
		default:
			open.text += strings.TrimPrefix(line, open.indent) + "\n"
		}
		text.WriteString("```\n")
	}
	return all, text.String()
}

// blocksOf returns the blocks of a kind on all pages, except those on generated pages.
func blocksOf(t *testing.T, kind string) []block {
	t.Helper()
	var all []block
	for _, page := range pages(t) {
		if slices.Contains(generated, page) {
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
