package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	specRuleRE = regexp.MustCompile(`(?m)^\| ([ACD]\d+) \| \S.* \|$`)
	specRowRE  = regexp.MustCompile(`(?m)^\| [A-Z]\d`)
	citedRE    = regexp.MustCompile(`\b[ACD]\d{1,2}\b`)

	commentRE      = regexp.MustCompile(`// .*`)
	txtarCommentRE = regexp.MustCompile(`# .*`)
)

// Every rule has its own number in docs/spec, and a comment of a test, or of the oracle in test/random, cites it. Every number that
// the specification or such a comment cites belongs to a rule.
func TestRulesAreTested(t *testing.T) {
	rules, texts := map[string]string{}, map[string]string{}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "spec", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		texts[page] = read(t, page)
		found := specRuleRE.FindAllStringSubmatch(texts[page], -1)
		if rows := specRowRE.FindAllString(texts[page], -1); len(found) == 0 || len(found) != len(rows) {
			t.Errorf("%s: %d of %d rules have a number and a text", page, len(found), len(rows))
		}
		for _, m := range found {
			if rules[m[1]] != "" {
				t.Errorf("%s: rule %s is in %s, too", page, m[1], rules[m[1]])
			}
			rules[m[1]] = page
		}
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		comment := commentRE
		if filepath.Ext(path) == ".txtar" {
			comment = txtarCommentRE
		} else if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") && filepath.Base(filepath.Dir(path)) != "random" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(content), "docs/spec/") || filepath.Base(path) == "spec_test.go" {
			return err
		}
		files++
		texts[path] = strings.Join(comment.FindAllString(string(content), -1), "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tested := map[string]bool{}
	for path, text := range texts {
		for _, cited := range citedRE.FindAllString(text, -1) {
			if rules[cited] == "" {
				t.Errorf("%s cites %s, which is no rule", path, cited)
			}
			tested[cited] = tested[cited] || filepath.Ext(path) != ".md"
		}
	}
	for rule, page := range rules {
		if !tested[rule] {
			t.Errorf("%s: no test cites rule %s in a comment", page, rule)
		}
	}
	if files < 5 {
		t.Errorf("%d test files cite docs/spec: the expression that finds them is wrong", files)
	}
}
