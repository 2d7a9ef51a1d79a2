package clusterset_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns/caddy"
)

// setupFiles creates a directory with one headless service in zones a and b, and returns the directory's parent.
func setupFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "objects", "objects.yaml"), documents(
		importYAML("shop", "db", "Headless"), sliceYAML("shop", "db-a", "db", "ca", "10.0.0.1"), sliceYAML("shop", "db-b", "db", "cb", "10.0.0.2"),
		memberYAML("ca", "a", "r1", false), memberYAML("cb", "b", "r2", false),
	))
	return dir
}

// What Caddy does to a Corefile before clusterset parses it keeps the lines.
func TestCorefileErrorsNameFileAndLine(t *testing.T) {
	t.Setenv("TEST_NONSENSE", "a\x01b")
	for option, want := range map[string]string{
		"ttl x":                        `plugin/clusterset: Corefile:5 - Error during parsing: ttl: want one number from 0 to 3600, not "x"`,
		"location c1 {$TEST_NONSENSE}": "Corefile:5 - Error during parsing: location: ",
	} {
		_, err := caddy.Start(liveInput("clusterset.local:0 {\n    bind 127.0.0.1\n    clusterset {\n        manifests testdata\n        " + option + "\n    }\n}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %s", err, want)
		}
	}
}
