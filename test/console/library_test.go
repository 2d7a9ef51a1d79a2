package console

import (
	"crypto/sha256"
	"encoding/hex"
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
			name, sum := words[0], words[3]
			listed[name] = true
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if name == "hooks.js" { // ORIGIN documents this difference
				content = []byte(strings.Replace(string(content), `from"./preact.js"`, `from"preact"`, 1))
			}
			if has := sha256.Sum256(content); hex.EncodeToString(has[:]) != sum {
				t.Errorf("%s isn't %s of %s", filepath.Join(dir, name), words[2], words[1])
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
