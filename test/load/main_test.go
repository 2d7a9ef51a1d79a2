package load

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/clusterset/clusterset/test/fleet"
)

// workDir holds the binaries and the cluster. It is removed after the run.
var workDir string

func TestMain(m *testing.M) {
	var err error
	if workDir, err = os.MkdirTemp("", "load-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	stopCluster()
	_ = os.RemoveAll(workDir)
	os.Exit(code)
}

// build builds coredns as it ships, once for all tests, and returns its path. The race detector of these tests doesn't cover it,
// because it is another process.
var build = sync.OnceValues(func() (string, error) {
	bin, err := fleet.Build(context.Background(), "../..", workDir, "-s -w")
	return bin.CoreDNS, err
})

// lasting returns how long a test's load lasts: a short time, or the value of the environment variable LOAD, such as 10m.
func lasting(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("LOAD")
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("LOAD=%s: want a duration such as 10m", text)
	}
	return d
}
