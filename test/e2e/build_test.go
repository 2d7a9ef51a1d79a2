package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const root = "../.."

// workDir holds the binaries and what shared fleets write. It goes with the run.
var workDir string

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // controller-runtime's, which else complains
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if workDir, err = os.MkdirTemp("", "e2e-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(workDir) }()
	defer stopShared()
	return m.Run()
}

// build builds the two binaries, once for all tests, as a user would but without debug information, which halves the time.
var build = sync.OnceValue(func() error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-ldflags=-s -w", "-o", workDir+string(filepath.Separator), "./cmd/clusterset", "./cmd/coredns")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

func binary(name string) string { return filepath.Join(workDir, name) }
