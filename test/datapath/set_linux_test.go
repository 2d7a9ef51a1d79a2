package datapath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/process"
)

var shared struct {
	sync.Mutex
	dir   string
	world *world
	err   error
}

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // controller-runtime prints a warning without a logger
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if shared.dir, err = os.MkdirTemp("", "datapath-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(shared.dir) }()
	defer func() { shared.world.stop() }()
	return m.Run()
}

// set returns the set of clusters that all tests share, once every cluster is ready. The first test starts it. Tests run one after
// another, and each leaves the set as it found it.
func set(t *testing.T) *world {
	t.Helper()
	needed(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.world == nil && shared.err == nil {
		began := time.Now()
		shared.world, shared.err = launch(context.Background(), shared.dir) // the set outlives the test
		t.Logf("starting the set took %s", time.Since(began).Round(time.Millisecond))
	}
	if shared.err != nil {
		t.Fatalf("start the set: %v", shared.err)
	}
	w := shared.world
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range w.programs() {
				t.Log(process.LogSince(p.Log, 0, 15))
			}
		}
	})
	kube.Eventually(t, w.ready)
	return w
}

// needed skips a test that can't run here, or fails it if CLUSTERSET_DATAPATH requires the tests.
func needed(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts control planes")
	}
	if err := missing(); err != nil {
		if os.Getenv("CLUSTERSET_DATAPATH") == "required" {
			t.Fatalf("this needs %v", err)
		}
		t.Skipf("this needs %v", err)
	}
}

// missing returns an error with what the tests need and the machine lacks.
func missing() error {
	var lacks []string
	if os.Geteuid() != 0 {
		lacks = append(lacks, "root")
	}
	for _, program := range []string{"nft", "iptables", "ip", "nsenter", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			lacks = append(lacks, program)
		}
	}
	if len(lacks) > 0 {
		return errors.New(strings.Join(lacks, ", "))
	}
	n, err := newNamespace()
	if err != nil {
		return fmt.Errorf("network namespaces: %w", err)
	}
	defer n.close()
	return n.run("nft add table inet probe")
}
