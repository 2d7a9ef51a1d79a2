package random

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/fleettest"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/poll"
)

const (
	// fixedSeed is the seed of make test.
	fixedSeed = 20261122
	// seedEnv sets the seed, to repeat a run: the same seed yields the same operations, and the same kills between them.
	seedEnv = "CLUSTERSET_SEED"
	// runsEnv is the number of runs. They use this seed and the following ones.
	runsEnv = "CLUSTERSET_RUNS"

	// Converge bounds the time from the last operation until the answers are right. It allows for the longest retry delays,
	// up to a minute.
	Converge = 4 * time.Minute
)

// Seeds returns the first seed and the number of runs.
func Seeds(t *testing.T) (uint64, int) {
	t.Helper()
	seed, runs := uint64(fixedSeed), 1
	if fleettest.Long {
		seed = uint64(time.Now().Unix()) //nolint:gosec // after 1970
	}
	var err error
	if s := os.Getenv(seedEnv); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
	}
	if s := os.Getenv(runsEnv); s != "" {
		if runs, err = strconv.Atoi(s); err != nil || runs < 1 {
			t.Fatalf("%s=%q: want how many runs to make", runsEnv, s)
		}
	}
	t.Logf("repeat with %s=%d", seedEnv, seed)
	return seed, runs
}

// Server is a DNS server, the member whose objects it reads, and its location.
type Server struct {
	*fleettest.DNS
	Member *fleettest.Member
	At     fleet.Location
}

// Run is the run of one script on a fleet.
type Run struct {
	*fleettest.Fleet
	Script  *Script
	Servers []Server
	// suspects are the questions whose last answer was wrong. They are asked first, because most are still wrong.
	suspects []doubt
	seen     map[string]bool // the names that have existed
	// Silences says that clusters may fall silent. They then count as Suspect behind addresses for a while (D5), so endpoints of last resort aren't
	// checked.
	Silences bool
}

func (r *Run) run() {
	r.Helper()
	began := time.Now()
	defer func() {
		if r.Failed() {
			r.Logf("repeat with %s=%d; the operations were\n%s", seedEnv, r.Script.seed, r.Script)
		}
	}()
	r.Play()
	fleettest.Took(r, fmt.Sprintf("%d operations with %d kills", len(r.Script.operations), r.Script.kills), began)

	began = time.Now()
	if r.Paths != nil {
		r.Paths.MendAll() // for the next run
	}
	if err := r.clear(); err != nil {
		r.Fatal(err)
	}
	kube.EventuallyWithin(r, Converge, r.Check)
	fleettest.Took(r, "until nothing was left it", began)
}

// Play performs the script's operations.
func (r *Run) Play() {
	r.Helper()
	for _, op := range r.Script.operations {
		if err := op.do(r); err != nil {
			r.Fatalf("%s: %v", op.text, err)
		}
	}
}

// rest starts every process that is down and waits until all answers are right.
func (r *Run) rest() error {
	ctx, began := context.Background(), time.Now()
	for _, p := range r.Processes() {
		if err := p.Start(ctx); err != nil {
			return err
		}
	}
	if err := poll.Within(ctx, Converge, func(context.Context) error { return r.Check() }); err != nil {
		return err
	}
	fleettest.Took(r, "until all answers were right it", began)
	return nil
}

// Processes returns the processes that the script can kill. Their number is setup.processes.
func (r *Run) Processes() []*fleet.Program {
	all := []*fleet.Program{r.Hub.Process}
	for _, m := range r.Members {
		all = append(all, m.Agent)
	}
	for _, s := range r.Servers {
		all = append(all, s.Program)
	}
	return all
}

// clear deletes all the users' objects. The importer removes its own.
func (r *Run) clear() error {
	var errs []error
	for _, m := range r.Members {
		for _, ns := range r.Script.Namespaces {
			for _, all := range []client.Object{&corev1.Service{}, &mcsv1beta1.ServiceExport{}, &discoveryv1.EndpointSlice{}} {
				errs = append(errs, m.Client.DeleteAllOf(context.Background(), all, client.InNamespace(ns), client.MatchingLabels{userLabel: "true"}))
			}
		}
	}
	return errors.Join(errs...)
}
