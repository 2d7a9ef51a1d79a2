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

// binDir is the folder of the repository's programs. It is removed after the last test, unless make test has built them.
var binDir string

func TestMain(m *testing.M) {
	Quiet()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if binDir = os.Getenv("CLUSTERSET_BINARIES"); binDir == "" {
		var err error
		if binDir, err = os.MkdirTemp("", "clusterset-chart-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(binDir) }()
	}
	return m.Run()
}

var build = sync.OnceValue(func() error {
	if os.Getenv("CLUSTERSET_BINARIES") != "" {
		return nil
	}
	out, err := exec.Command("go", "-C", root, "build", "-o", binDir+"/", "./cmd/clusterset", "./cmd/coredns").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, out)
	}
	return err
})

// built returns the path of a program of the repository.
func built(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binDir, name)
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
