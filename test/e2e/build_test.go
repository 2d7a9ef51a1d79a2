package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	testfleet "github.com/clusterset/clusterset/test/fleet"
)

const root = "../.."

// long is set by make test-long: tests then run more rounds, with another seed in each run.
var long = os.Getenv("CLUSTERSET_LONG") != ""

// workDir holds the binaries and the files of shared fleets. It is removed after the run.
var workDir string

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())                    // controller-runtime complains if it has no logger
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the API server warns of FQDN slices at every write
	// A test that waits for its fleet occupies a slot, so there must be one for each. The number of fleets limits how many
	// run.
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

// build builds the two binaries once for all tests, without debug information, which halves the time.
var build = sync.OnceValue(func() error {
	_, err := testfleet.Build(context.Background(), root, workDir, "-s -w")
	return err
})

// binaries are those that build builds.
func binaries() testfleet.Binaries { return testfleet.BinariesIn(workDir) }
