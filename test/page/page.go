// Package page holds files to what code says now: documents that are generated from it, and outputs that tests expect.
package page

import (
	"os"
	"strings"
	"testing"
)

// Fresh fails the test if the file isn't the text, and shows the lines that only one of them has. With UPDATE in the
// environment, as make generate sets it for documents, it writes the file instead.
func Fresh(t testing.TB, path, text string) {
	t.Helper()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path) //nolint:gosec // a document
	if err != nil {
		t.Fatal(err)
	}
	if string(have) == text {
		return
	}
	t.Errorf("%s isn't what it should be; UPDATE=1 rewrites it, and of documents make generate. All of it is now:\n%s", path, text)
	for _, line := range missing(text, string(have)) {
		t.Logf("new: %s", line)
	}
	for _, line := range missing(string(have), text) {
		t.Logf("old: %s", line)
	}
}

// missing returns the lines of one text that the other doesn't have.
func missing(from, in string) []string {
	has := map[string]bool{}
	for line := range strings.Lines(in) {
		has[line] = true
	}
	var lines []string
	for line := range strings.Lines(from) {
		if !has[line] {
			lines = append(lines, line)
		}
	}
	return lines
}
