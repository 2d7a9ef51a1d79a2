package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	testfleet "github.com/clusterset/clusterset/test/fleet"
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

// build builds the two binaries, once for all tests, without debug information, which halves the time.
var build = sync.OnceValue(func() error {
	_, err := testfleet.Build(context.Background(), root, workDir, "-s -w")
	return err
})

func binary(name string) string { return filepath.Join(workDir, name) }
