package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testRefRE = regexp.MustCompile(`\[([^\]]+)\]\(\.\./([^)]+_test\.go)\)`)
	claimRE   = regexp.MustCompile(`(?m)^- \*\*(S[0-9]+)\*\* (.*(?:\n  .*)*)`)
)

// Each claim of docs/security.md is an item of a list, with a number and its tests. Each test that is named there exists: a function, by its
// name, or a subtest (t.Run), by its description.
func TestClaimsAboutSecurityNameTheirTests(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "security.md"))
	claims := map[string]bool{}
	for _, claim := range claimRE.FindAllStringSubmatch(page, -1) {
		number, text := claim[1], strings.Join(strings.Fields(claim[2]), " ")
		refs := testRefRE.FindAllStringSubmatch(text, -1)
		if claims[number] || len(refs) == 0 || strings.HasPrefix(text, "([") {
			t.Errorf("docs/security.md: %s is there twice, claims nothing or has no test", number)
		}
		claims[number] = true
		for _, ref := range refs {
			if err := testExists(ref[1], ref[2]); err != "" {
				t.Errorf("docs/security.md: %s: %s", number, err)
			}
		}
	}
	if len(claims) < 60 {
		t.Errorf("docs/security.md has %d claims: the expression that finds them is wrong", len(claims))
	}
	for _, list := range strings.Split(page, "\n\n") {
		for line := range strings.Lines(list) {
			if claimRE.MatchString(list) && strings.HasPrefix(line, "- ") && !claimRE.MatchString(line) {
				t.Errorf("docs/security.md claims something without a number: %s", line)
			}
		}
	}
}

// testExists returns an error text unless the file has the test. The name is TestFunction, TestFunction/words or words.
func testExists(name, path string) string {
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return err.Error()
	}
	function, words, _ := strings.Cut(name, "/")
	if !regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`).MatchString(function) {
		function, words = "", name
	}
	if function != "" && !regexp.MustCompile(`(?m)^func `+function+`\(`).Match(content) {
		return path + " has no " + function
	}
	if words != "" && !strings.Contains(string(content), `t.Run("`+words+`"`) {
		return path + ` has no t.Run("` + words + `")`
	}
	return ""
}
