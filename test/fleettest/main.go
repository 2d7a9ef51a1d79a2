package fleettest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/ownnet"
)

// root is the repository, relative to the folder of a package beside this one, in which that package's tests run.
const root = "../.."

// Long is set in make test-long: tests then run more rounds, with another seed in each run.
var Long = os.Getenv("CLUSTERSET_LONG") != ""

// workDir holds the binaries and the files of shared fleets. It is removed after the run.
var workDir string

// MainWithBeacons is [Main] in a network of its own, which members with beacons need.
func MainWithBeacons(m *testing.M) {
	if err := ownnet.Enter(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	Main(m)
}

// Main is the TestMain of a package that starts fleets.
func Main(m *testing.M) {
	log.SetLogger(logr.Discard())                    // controller-runtime complains if it has no logger
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the API server warns about FQDN slices on every write
	// A test that waits for its fleet occupies one of the parallel slots, so every test needs one. The number of fleets
	// limits how many tests run.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("1000")
	}
	os.Exit(run(m))
}

// run runs the tests, and ends the fleets that they share. A data race in a program fails the run.
func run(m interface{ Run() int }) int {
	var err error
	if workDir, err = os.MkdirTemp("", "fleet-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(workDir) }()
	code := m.Run()
	stopShared()
	if races := fleet.Races(); len(races) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(races, "\n"))
		return 1
	}
	return code
}

// Build builds the two binaries once for all tests, without debug information, which halves the time.
var Build = sync.OnceValue(func() error {
	_, err := fleet.Build(context.Background(), root, workDir, "-s -w")
	return err
})

// Binaries returns the paths of the binaries that Build builds.
func Binaries() fleet.Binaries { return fleet.BinariesIn(workDir) }
