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
	rowRE     = regexp.MustCompile(`^\|(.*)\|$`)
)

// Each line of docs/security.md that claims something names a test, and each test that is named exists: a function, by its name, or
// a subtest (t.Run), by its description.
func TestClaimsAboutSecurityNameTheirTests(t *testing.T) {
	page := read(t, filepath.Join(root, "docs", "security.md"))
	claims, column := 0, -1
	for n, line := range strings.Split(page, "\n") {
		m := rowRE.FindStringSubmatch(line)
		if m == nil {
			column = -1
			continue
		}
		cells := strings.Split(m[1], "|")
		last := strings.TrimSpace(cells[len(cells)-1])
		switch {
		case column < 0: // a table's header
			column = len(cells) - 1
			if last != "test" {
				column = len(cells) // a table without claims
			}
		case strings.Trim(last, "-") == "" || column == len(cells):
		default:
			claims++
			refs := testRefRE.FindAllStringSubmatch(last, -1)
			if len(refs) == 0 {
				t.Errorf("docs/security.md:%d claims something and names no test: %s", n+1, line)
			}
			for _, ref := range refs {
				if err := testExists(ref[1], ref[2]); err != "" {
					t.Errorf("docs/security.md:%d: %s", n+1, err)
				}
			}
		}
	}
	if claims < 20 {
		t.Errorf("docs/security.md has %d claims: the expressions that find them are wrong", claims)
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
