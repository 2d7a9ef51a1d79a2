package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	testRefRE  = regexp.MustCompile(`\[([^\]]+)\]\(\.\./([^)]+_test\.go)\)`)
	claimRE    = regexp.MustCompile(`\bS[0-9]+\b`)
	claimRowRE = regexp.MustCompile(`(?m)^\| (S[0-9]+) \| (.*) \|$`)
	tableRE    = regexp.MustCompile(`(?m)(?:^\|.*\|\n)+`)
)

// Each claim of docs/security.md has a number, and its tests in docs/security-tests.md. Each test that is named there exists: a function, by its
// name, or a subtest (t.Run), by its description.
func TestClaimsAboutSecurityNameTheirTests(t *testing.T) {
	tests := map[string]bool{}
	for _, row := range claimRowRE.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "security-tests.md")), -1) {
		refs := testRefRE.FindAllStringSubmatch(row[2], -1)
		if tests[row[1]] || len(refs) == 0 {
			t.Errorf("docs/security-tests.md: %s is there twice, or has no test", row[1])
		}
		tests[row[1]] = true
		for _, ref := range refs {
			if err := testExists(ref[1], ref[2]); err != "" {
				t.Errorf("docs/security-tests.md: %s: %s", row[1], err)
			}
		}
	}
	page := read(t, filepath.Join(root, "docs", "security.md"))
	claims := map[string]bool{}
	for _, number := range claimRE.FindAllString(strings.Replace(page, "S1 and so on", "", 1), -1) {
		if claims[number] {
			t.Errorf("docs/security.md has %s twice", number)
		}
		claims[number] = true
	}
	if !maps.Equal(claims, tests) {
		t.Errorf("docs/security.md has the claims %v, and docs/security-tests.md has tests of %v", slices.Sorted(maps.Keys(claims)), slices.Sorted(maps.Keys(tests)))
	}
	if len(claims) < 60 {
		t.Errorf("docs/security.md has %d claims: the expressions that find them are wrong", len(claims))
	}
	for _, table := range tableRE.FindAllString(page, -1) {
		rows := strings.Split(strings.TrimSpace(table), "\n")
		if !strings.HasSuffix(rows[0], "| claim |") {
			continue // a table without claims
		}
		for _, row := range rows[2:] {
			if !claimRE.MatchString(row[strings.LastIndex(strings.TrimSuffix(row, " |"), "|"):]) {
				t.Errorf("docs/security.md claims something without a number: %s", row)
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
