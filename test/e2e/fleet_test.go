package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	testfleet "github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/poll"
	"github.com/clusterset/clusterset/test/process"
)

// soon bounds every wait. It is far more than needed, for machines that compile at the same time.
const soon = 2 * time.Minute

// clusterSpec describes a member of a fleet.
type clusterSpec struct {
	name, zone, region string
	// dualStack gives Services IPv4 and IPv6 addresses.
	dualStack bool
	// controllers runs a kube-controller-manager: Services with a selector get slices, owned objects are collected,
	// deleted namespaces are emptied.
	controllers bool
	// cidrs and communities are passed to join.
	cidrs, communities []string
	// agent are additional flags of `clusterset member`.
	agent []string
	// more is applied in addition to the rights of the processes.
	more string
	// options are additional options of the API server and its etcd.
	options []kube.Option
}

// fleet is a hub and its members as one test sees them: an error fails that test.
type fleet struct {
	testing.TB
	hub     *hub
	members []*member
	dir     string
}

// newFleet starts a fleet that ends with the test. Each member has joined, its agent and its CoreDNS run, and every member
// sees all others as ready.
func newFleet(t *testing.T, specs ...clusterSpec) *fleet {
	t.Helper()
	skipIfShort(t)
	alone(t)
	f, err := launch(t.Context(), t.TempDir(), specs)
	if f != nil {
		t.Cleanup(f.stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.of(t)
}

func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts control planes")
	}
}

// launch starts a fleet that belongs to no test yet. On an error it also returns what it has started.
func launch(ctx context.Context, dir string, specs []clusterSpec) (*fleet, error) {
	f := assemble(dir, specs)
	err := f.launch(ctx)
	return f, err
}

// assemble creates a fleet without starting anything.
func assemble(dir string, specs []clusterSpec) *fleet {
	f := &fleet{dir: dir, hub: newHub(testfleet.NewHub(dir, binaries()))}
	for i, spec := range specs {
		f.members = append(f.members, newMember(dir, i, spec))
	}
	return f
}

func (f *fleet) launch(ctx context.Context) error {
	var group errgroup.Group
	group.SetLimit(3) // more would only compete for the processors
	group.Go(build)
	group.Go(func() error { return f.hub.launch(ctx) })
	for _, m := range f.members {
		group.Go(func() error { return m.launch(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.hub.prepare(ctx); err != nil {
		return err
	}
	for _, m := range f.members {
		group.Go(func() error { return m.prepare(ctx, f.hub) })
	}
	group.Go(func() error { return f.hub.process.Start(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return poll.Within(ctx, soon, func(context.Context) error { return f.allReady() })
}

// of returns the fleet for a test. If the test fails, its output gets the ends of the processes' logs.
func (f *fleet) of(t testing.TB) *fleet {
	mine := &fleet{TB: t, dir: f.dir, hub: f.hub.of(t)}
	programs := []*program{f.hub.process}
	for _, m := range f.members {
		mine.members = append(mine.members, m.of(t))
		programs = append(programs, m.agent, m.dns.Program)
	}
	from := map[*program]int64{}
	for _, p := range programs {
		if info, err := os.Stat(p.Log); err == nil {
			from[p] = info.Size()
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range programs {
				if info, err := os.Stat(p.Log); err == nil && info.Size() > from[p] {
					t.Log(process.LogSince(p.Log, from[p], 25))
				}
			}
		}
	})
	return mine
}

// stop ends all processes.
func (f *fleet) stop() {
	var group sync.WaitGroup
	for _, m := range f.members {
		m.agent.Kill()
		m.dns.Kill()
		group.Go(m.Stop)
	}
	f.hub.process.Kill()
	group.Go(f.hub.Stop)
	group.Wait()
}

// member returns the member of that name.
func (f *fleet) member(name string) *member {
	f.Helper()
	for _, m := range f.members {
		if m.name == name {
			return m
		}
	}
	f.Fatalf("the fleet has no member %s", name)
	return nil
}

// allReady returns nil once the hub and every member see every member as ready.
func (f *fleet) allReady() error {
	var errs []error
	for _, of := range f.members {
		errs = append(errs, f.hub.phaseIs(of.name, clustersetv1alpha1.MemberReady))
		for _, at := range f.members {
			errs = append(errs, at.phaseIs(of.name, clustersetv1alpha1.MemberReady))
		}
	}
	return errors.Join(errs...)
}

// settle waits until the hub and every member see every member as ready.
func (f *fleet) settle() {
	f.Helper()
	kube.Eventually(f, soon, f.allReady)
}

var namespaces struct {
	sync.Mutex
	n int
}

// namespace makes a namespace for this test in every member and returns its name, which begins with the given one. What the
// test exports from it is un-exported when the test ends.
func (f *fleet) namespace(name string) string {
	f.Helper()
	name = numbered(name)
	for _, m := range f.members {
		m.namespace(name)
	}
	return name
}

// numbered returns a name that no other test has, nor another run of this one.
func numbered(name string) string {
	namespaces.Lock()
	defer namespaces.Unlock()
	namespaces.n++
	return fmt.Sprintf("%s-%d", name, namespaces.n)
}

// eventually waits until f returns nil for every member.
func (f *fleet) eventually(ok func(*member) error) {
	f.Helper()
	kube.Eventually(f, soon, func() error {
		var errs []error
		for _, m := range f.members {
			if err := ok(m); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
			}
		}
		return errors.Join(errs...)
	})
}

// took logs how long a step took, beside the 20 s that the Multi-Cluster Services conformance suite allows for such steps.
func took(t testing.TB, what string, since time.Time) {
	t.Helper()
	t.Logf("%s took %s", what, time.Since(since).Round(10*time.Millisecond))
}

// turns are the numbers of the fleets of a name that no test uses at the moment.
var turns sync.Map

// takeTurn waits until one of the n fleets of that name is free, reserves it until the test has ended, and returns its
// number. Tests that use different fleets run at the same time, because they mostly wait. A test registers the cleanup of
// its fleet later, so it runs before the fleet is released.
func takeTurn(t *testing.T, name string, fleets int) int {
	t.Helper()
	t.Parallel()
	free := make(chan int, fleets)
	for n := range fleets {
		free <- n
	}
	entry, _ := turns.LoadOrStore(name, free)
	free = entry.(chan int)
	began := time.Now()
	n := <-free
	t.Cleanup(func() { free <- n })
	took(t, "waiting for its turn", began)
	return n
}

// alone waits until no other test has a fleet of its own.
func alone(t *testing.T) {
	t.Helper()
	takeTurn(t, "", 1)
}

// shared are the fleets that several tests use. The first test starts them.
var shared sync.Map

type sharedFleet struct {
	start sync.Once
	fleet *fleet
	err   error
}

// sharedAs returns one of the n fleets of that name once it is this test's turn. The first call for a fleet starts it.
func sharedAs(t *testing.T, name string, fleets int, specs ...clusterSpec) *fleet {
	t.Helper()
	skipIfShort(t)
	name = fmt.Sprintf("%s-%d", name, takeTurn(t, name, fleets))
	entry, _ := shared.LoadOrStore(name, &sharedFleet{})
	s := entry.(*sharedFleet)
	s.start.Do(func() {
		dir := filepath.Join(workDir, name)
		began := time.Now()
		if s.err = os.Mkdir(dir, 0o700); s.err == nil {
			s.fleet, s.err = launch(context.Background(), dir, specs) // it outlives the test
		}
		took(t, "starting the fleet "+name, began)
	})
	if s.err != nil {
		t.Fatalf("start the fleet %s: %v", name, s.err)
	}
	return s.fleet.of(t)
}

func stopShared() {
	shared.Range(func(_, s any) bool {
		if f := s.(*sharedFleet).fleet; f != nil {
			f.stop()
		}
		return true
	})
}

// cities is the shared fleet of FabDNS's example. All but shijiazhuang are dual-stack; xicheng has controllers.
func cities(t *testing.T) *fleet {
	t.Helper()
	f := sharedAs(t, "cities", 1,
		clusterSpec{name: "xicheng", zone: "beijing", region: "north", dualStack: true, controllers: true},
		clusterSpec{name: "chaoyang", zone: "beijing", region: "north", dualStack: true},
		clusterSpec{name: "minhang", zone: "shanghai", region: "south", dualStack: true},
		clusterSpec{name: "shijiazhuang", zone: "hebei", region: "north"},
	)
	f.settle()
	return f
}
