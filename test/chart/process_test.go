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

// binDir is the folder of the repository's programs. It is removed after the last test.
var binDir string

func TestMain(m *testing.M) {
	Quiet()
	var err error
	if binDir, err = os.MkdirTemp("", "clusterset-chart-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binDir)
	os.Exit(code)
}

var build = sync.OnceValues(func() (string, error) {
	if made := os.Getenv("CLUSTERSET_BINARIES"); made != "" { // by make test
		return made, nil
	}
	out, err := exec.Command("go", "-C", root, "build", "-o", binDir+"/", "./cmd/clusterset", "./cmd/coredns").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, out)
	}
	return binDir, err
})

// built returns the path of a program of the repository.
func built(t *testing.T, name string) string {
	t.Helper()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// start runs a program until the test ends. If the test fails, it prints the program's output.
func start(t *testing.T, env []string, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(built(t, program), args...)
	cmd.Env = append(os.Environ(), env...)
	process.StartFor(t, cmd, fmt.Sprint(program, " ", args))
}
