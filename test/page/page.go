// Package page compares files with what the code produces now: generated documents, and outputs that tests expect.
package page

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Fresh fails the test if the file's content isn't text, and logs the lines that only one of them has. If UPDATE is set in
// the environment, it writes the file instead. make generate sets UPDATE for documents.
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

// missing returns the lines of from that in doesn't have.
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

// Section is the part of a document between two marks, such as a table that a long test publishes.
type Section struct{ Begin, End string }

// Read returns the section's text in a file.
func (s Section) Read(path string) (string, error) {
	_, text, _, err := s.cut(path)
	return text, err
}

// Replace writes the section's text into a file.
func (s Section) Replace(path, text string) error {
	head, _, tail, err := s.cut(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(head+s.Begin+text+s.End+tail), 0o644) //nolint:gosec // a document
}

func (s Section) cut(path string) (head, text, tail string, err error) {
	content, err := os.ReadFile(path) //nolint:gosec // a document
	if err != nil {
		return "", "", "", err
	}
	head, rest, begins := strings.Cut(string(content), s.Begin)
	text, tail, ends := strings.Cut(rest, s.End)
	if !begins || !ends {
		err = fmt.Errorf("%s has no place between %q and %q", path, s.Begin, s.End)
	}
	return head, text, tail, err
}
