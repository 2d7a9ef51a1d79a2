package docs

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkRE    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingRE = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *#*$`)
	codeRE    = regexp.MustCompile("`[^`]*`")
)

// Every relative link in the documentation leads to an existing file, and every fragment to a heading of its page.
func TestLinksResolve(t *testing.T) {
	n := 0
	for _, page := range pages(t) {
		for _, m := range linkRE.FindAllStringSubmatch(codeRE.ReplaceAllString(prose(t, page), "``"), -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if u.IsAbs() {
				continue
			}
			n++
			target := page
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(page), u.Path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
				continue
			}
			if u.Fragment != "" && !anchors(t, target)[u.Fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", page, m[1], target)
			}
		}
	}
	if n == 0 {
		t.Error("no links found: the expression that finds them is wrong")
	}
}

// prose returns a page without its fenced blocks.
func prose(t *testing.T, page string) string {
	t.Helper()
	_, text := parse(read(t, filepath.Join(root, page)))
	return text
}

var notInAnchorRE = regexp.MustCompile(`[^-_0-9a-z\x{80}-\x{10FFFF}]`)

// anchors returns the fragments that GitHub generates for a page's headings.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, m := range headingRE.FindAllStringSubmatch(prose(t, page), -1) {
		all[notInAnchorRE.ReplaceAllString(strings.ReplaceAll(strings.ToLower(m[1]), " ", "-"), "")] = true
	}
	return all
}

// docs/README.md lists every page of docs/.
func TestPagesAreListed(t *testing.T) {
	index := read(t, filepath.Join(root, "docs", "README.md"))
	for _, page := range pages(t) {
		if name, ok := strings.CutPrefix(page, "docs/"); ok && name != "README.md" && !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md doesn't list %s", page)
		}
	}
}
