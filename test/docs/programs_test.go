package docs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/clusterset/clusterset/test/fleet"
)

const root = "../.."

// binDir holds the programs that tests run. It is removed after the run.
var binDir string

func TestMain(m *testing.M) {
	var err error
	if binDir, err = os.MkdirTemp("", "docs-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(binDir)
	os.Exit(code)
}

// build builds the repository's programs once, as a user would, but without debug information, which halves the time.
var build = sync.OnceValue(func() error {
	if _, err := fleet.Build(context.Background(), root, binDir, "-s -w"); err != nil {
		return err
	}
	return command(root, "go", "build", "-ldflags=-s -w", "-o", binDir+string(filepath.Separator), "./test/docs/dig").Run()
})

// binary returns the path of a program that build made.
func binary(t *testing.T, name string) string {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binDir, name)
}

// fetchCommands builds kubectl and helm. `go tool` would compile them with flags of its own, whatever GOFLAGS says, and so once more.
var fetchCommands = sync.OnceValue(func() error {
	return command(filepath.Join(root, "test", "docs", "commands"), "go", "build", "-ldflags=-s -w", "-o", binDir+string(filepath.Separator), "./kubectl", "helm.sh/helm/v4/cmd/helm").Run()
})

// program is a command whose errors contain its output.
type program struct{ *exec.Cmd }

func command(dir, name string, args ...string) program {
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return program{cmd}
}

func (p program) Output() ([]byte, error) {
	var stderr bytes.Buffer
	p.Stderr = &stderr
	out, err := p.Cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", p.Cmd, err, stderr.String(), out) // with -json, go reports errors on stdout
	}
	return out, nil
}

func (p program) Run() error {
	_, err := p.Output()
	return err
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
