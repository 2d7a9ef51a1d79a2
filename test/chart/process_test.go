package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/clusterset/clusterset/test/process"
)

// built returns the path of a program of the repository, and compiles it on first use. If name is an absolute path, the program
// already exists.
func built(t testing.TB, name string) string {
	t.Helper()
	if filepath.IsAbs(name) {
		return name
	}
	buildMu.Lock()
	defer buildMu.Unlock()
	if dir := os.Getenv("CLUSTERSET_BINARIES"); dir != "" { // make test has built it
		return filepath.Join(dir, name)
	}
	if path, ok := builds[name]; ok {
		return path
	}
	dir, err := os.MkdirTemp("", "clusterset-chart-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	builds[name] = path
	cmd := exec.Command("go", "build", "-o", path, "./cmd/"+name)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build ./cmd/%s: %v\n%s", name, err, out)
	}
	return path
}

var (
	buildMu sync.Mutex
	builds  = make(map[string]string)
)

// removeBuilds removes the programs after the last test.
func removeBuilds() {
	for _, path := range builds {
		_ = os.RemoveAll(filepath.Dir(path))
	}
}

// start runs a program until the test ends. If the test fails, it prints the program's output.
func start(t *testing.T, env map[string]string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(built(t, name), args...)
	cmd.Env = os.Environ()
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	process.StartFor(t, cmd, fmt.Sprint(name, " ", args))
}
