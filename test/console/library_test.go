package console

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The library folders contain exactly the files that ORIGIN names, unchanged from their packages.
func TestLibraries(t *testing.T) {
	for _, dir := range []string{filepath.Join(root, "cli", "console", "web", "lib"), filepath.Join("testdata", "axe")} {
		origin, err := os.ReadFile(filepath.Join(dir, "ORIGIN"))
		if err != nil {
			t.Fatal(err)
		}
		listed := map[string]bool{"ORIGIN": true}
		for line := range strings.Lines(string(origin)) {
			words := strings.Fields(line)
			if len(words) == 0 || words[0] == "#" {
				continue
			}
			listed[words[0]] = true
			content, err := os.ReadFile(filepath.Join(dir, words[0]))
			if words[0] == "hooks.js" { // ORIGIN documents this difference
				content = bytes.Replace(content, []byte(`from"./preact.js"`), []byte(`from"preact"`), 1)
			}
			if has := fmt.Sprintf("%x", sha256.Sum256(content)); err != nil || has != words[3] {
				t.Errorf("%s isn't %s of %s: %v", filepath.Join(dir, words[0]), words[2], words[1], err)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !listed[e.Name()] {
				t.Errorf("%s: ORIGIN doesn't say where %s is from", dir, e.Name())
			}
		}
	}
}
