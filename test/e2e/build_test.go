package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	testfleet "github.com/clusterset/clusterset/test/fleet"
)

const root = "../.."

// long is set by make test-long, where tests take their time: more rounds, and another seed in each run.
var long = os.Getenv("CLUSTERSET_LONG") != ""

// workDir holds the binaries and what shared fleets write. It goes with the run.
var workDir string

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())                    // controller-runtime's, which else complains
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // of FQDN slices, at every write
	// Tests wait for their fleet with a slot in hand, so that there must be one for each. How many run follows from the fleets.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("1000")
	}
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
