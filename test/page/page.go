// Package page holds documents that are generated from code to what the code says.
package page

import (
	"os"
	"strings"
	"testing"
)

// Fresh fails the test if the file isn't the text, and names the lines that differ. With UPDATE in the environment, as make
// generate sets it, it writes the file instead.
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
	t.Errorf("%s is out of date: run make generate", path)
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
