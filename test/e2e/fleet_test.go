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
	"github.com/clusterset/clusterset/test/kube"
)

// soon bounds how long anything may take to come about. It is far more than it takes, for machines that compile beside.
const soon = 2 * time.Minute

// clusterSpec says what a member of a fleet is like.
type clusterSpec struct {
	name, zone, region string
	// dualStack gives Services IPv4 and IPv6 addresses.
	dualStack bool
	// controllers runs a kube-controller-manager: Services with a selector get slices, owned objects are collected,
	// deleted namespaces are emptied.
	controllers bool
	// cidrs are passed to join.
	cidrs []string
	// agent are more flags of `clusterset member`.
	agent []string
	// more is applied beside the rights of the processes.
	more string
	// options are more of the API server's and its etcd's.
	options []kube.Option
}

// fleet is a hub and its members as one test sees them: what goes wrong fails that test.
type fleet struct {
	testing.TB
	hub     *hub
	members []*member
	dir     string
}

// newFleet starts a fleet that ends with the test. Each member is joined, its agent and its CoreDNS run, and each knows all
// others to be ready.
func newFleet(t testing.TB, specs ...clusterSpec) *fleet {
	t.Helper()
	skipIfShort(t)
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

// launch starts a fleet that belongs to no test yet. What was started is returned beside an error too.
func launch(ctx context.Context, dir string, specs []clusterSpec) (*fleet, error) {
	f := assemble(dir, specs)
	err := f.launch(ctx)
	return f, err
}

// assemble puts a fleet together without starting anything.
func assemble(dir string, specs []clusterSpec) *fleet {
	f := &fleet{dir: dir, hub: newHub(dir)}
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
	return until(ctx, soon, func(context.Context) error { return f.allReady() })
}

// of returns the fleet as seen from a test, whose output gets the ends of the processes' logs if it fails.
func (f *fleet) of(t testing.TB) *fleet {
	mine := &fleet{TB: t, dir: f.dir, hub: f.hub.of(t)}
	programs := []*program{f.hub.process}
	for _, m := range f.members {
		mine.members = append(mine.members, m.of(t))
		programs = append(programs, m.agent, m.dns.program)
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
					t.Log(logSince(p.Log, from[p], 25))
				}
			}
		}
	})
	return mine
}

// stop ends everything.
func (f *fleet) stop() {
	var group errgroup.Group
	for _, m := range f.members {
		m.agent.Kill()
		m.dns.program.Kill()
		group.Go(m.stopPlane)
	}
	f.hub.process.Kill()
	group.Go(f.hub.stopPlane)
	_ = group.Wait()
}

// member returns the member of the name.
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

// allReady returns nil once the hub and every member know every member as ready.
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

// settle waits until the hub and every member know every member as ready.
func (f *fleet) settle() {
	f.Helper()
	kube.Eventually(f, soon, f.allReady)
}

var namespaces struct {
	sync.Mutex
	n int
}

// namespace makes a namespace of this test's own in every member and returns its name, which begins with the one given. What
// the test exports from it is un-exported when the test ends.
func (f *fleet) namespace(name string) string {
	f.Helper()
	name = numbered(name)
	for _, m := range f.members {
		m.namespace(name)
	}
	return name
}

// numbered returns a name that no other test has, nor the same one when it is run again.
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

// took logs how long something took, beside the 20 s that the Multi-Cluster Services conformance suite grants such things.
func took(t testing.TB, what string, since time.Time) {
	t.Helper()
	t.Logf("%s took %s", what, time.Since(since).Round(10*time.Millisecond))
}

// shared are the fleets that several tests use, started by the first.
var shared struct {
	sync.Mutex
	fleets map[string]*sharedFleet
}

type sharedFleet struct {
	fleet *fleet
	err   error
}

// sharedAs returns the fleet of that name, and starts it if this is the first call for it.
func sharedAs(t testing.TB, name string, specs ...clusterSpec) *fleet {
	t.Helper()
	skipIfShort(t)
	shared.Lock()
	defer shared.Unlock()
	s := shared.fleets[name]
	if s == nil {
		s = &sharedFleet{}
		dir := filepath.Join(workDir, name)
		began := time.Now()
		if s.err = os.Mkdir(dir, 0o700); s.err == nil {
			s.fleet, s.err = launch(context.Background(), dir, specs) // it outlives the test
		}
		t.Logf("starting the fleet %s took %s", name, time.Since(began).Round(time.Millisecond))
		if shared.fleets == nil {
			shared.fleets = map[string]*sharedFleet{}
		}
		shared.fleets[name] = s
	}
	if s.err != nil {
		t.Fatalf("start the fleet %s: %v", name, s.err)
	}
	return s.fleet.of(t)
}

func stopShared() {
	shared.Lock()
	defer shared.Unlock()
	for _, s := range shared.fleets {
		if s.fleet != nil {
			s.fleet.stop()
		}
	}
	shared.fleets = nil
}

// cities is the shared fleet of FabDNS's example. All but shijiazhuang are dual-stack; xicheng has controllers.
func cities(t testing.TB) *fleet {
	t.Helper()
	f := sharedAs(t, "cities",
		clusterSpec{name: "xicheng", zone: "beijing", region: "north", dualStack: true, controllers: true},
		clusterSpec{name: "chaoyang", zone: "beijing", region: "north", dualStack: true},
		clusterSpec{name: "minhang", zone: "shanghai", region: "south", dualStack: true},
		clusterSpec{name: "shijiazhuang", zone: "hebei", region: "north"},
	)
	f.settle()
	return f
}
