package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/fleet"
	"github.com/clusterset/clusterset/test/kube"
	"github.com/clusterset/clusterset/test/poll"
	"github.com/clusterset/clusterset/test/process"
)

// Spec describes a member of a fleet.
type Spec struct {
	Name, Zone, Region string
	// DualStack gives Services IPv4 and IPv6 addresses.
	DualStack bool
	// Controllers runs a kube-controller-manager: Services with a selector get slices, owned objects are garbage-collected,
	// and deleted namespaces are emptied.
	Controllers bool
	// Beacons lets the others measure whether they reach the member (see Paths).
	Beacons bool
	// Communities are passed to join.
	Communities []string
	// More is a manifest that is applied in addition to the rights of the processes.
	More string
	// Options are additional options of the API server and its etcd.
	Options []kube.Option
}

// Fleet is a hub and its members, for use by one test: an error fails that test.
type Fleet struct {
	testing.TB
	Hub     *Hub
	Members []*Member
	Dir     string
	Paths   *Paths // nil if no member has beacons
}

// New starts a fleet that ends with the test. Each member has joined, its agent and its CoreDNS run, and it sees all others
// as ready.
func New(t *testing.T, specs ...Spec) *Fleet {
	t.Helper()
	SkipIfShort(t)
	Alone(t)
	f, err := launch(t.Context(), t.TempDir(), specs)
	if f != nil {
		t.Cleanup(f.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.For(t)
}

// SkipIfShort skips a test that starts control planes if -short is set.
func SkipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts control planes")
	}
}

// launch starts a fleet that belongs to no test yet. It returns the fleet even on an error, so that the caller can stop
// what has started.
func launch(ctx context.Context, dir string, specs []Spec) (*Fleet, error) {
	starting.Lock()
	defer starting.Unlock()
	f := Assemble(dir, specs)
	err := f.Launch(ctx)
	return f, err
}

// Assemble creates a fleet without starting anything.
func Assemble(dir string, specs []Spec) *Fleet {
	f := &Fleet{Dir: dir, Hub: newHub(fleet.NewHub(dir, Binaries()))}
	for i, spec := range specs {
		f.Members = append(f.Members, newMember(dir, i, spec))
	}
	return f
}

// Launch builds the programs, starts everything, and waits until the hub and every member see every member as ready, and all have been
// reached that have beacons.
func (f *Fleet) Launch(ctx context.Context) (err error) {
	if f.Paths, err = pave(f.Members); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(3) // more would only compete for the processors
	group.Go(Build)
	group.Go(func() error { return f.Hub.launch(ctx) })
	for _, m := range f.Members {
		group.Go(func() error { return m.launch(ctx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.Hub.Prepare(ctx); err != nil {
		return err
	}
	for _, m := range f.Members {
		group.Go(func() error { return m.prepare(ctx, f.Hub) })
	}
	group.Go(func() error { return f.Hub.Process.Start(ctx) })
	if err := group.Wait(); err != nil {
		return err
	}
	return poll.Within(ctx, kube.Patience, func(context.Context) error { return errors.Join(f.allReady(), f.AllReached()) })
}

// For returns the fleet for a test. If the test fails, its output includes the ends of the processes' logs.
func (f *Fleet) For(t testing.TB) *Fleet {
	mine := &Fleet{TB: t, Dir: f.Dir, Paths: f.Paths, Hub: f.Hub.For(t)}
	programs := []*fleet.Program{f.Hub.Process}
	for _, m := range f.Members {
		mine.Members = append(mine.Members, m.For(t))
		programs = append(programs, m.Agent, m.DNS.Program)
	}
	from := map[*fleet.Program]int64{}
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

// Stop ends all processes.
func (f *Fleet) Stop() {
	var group sync.WaitGroup
	for _, m := range f.Members {
		m.Agent.Kill()
		m.DNS.Kill()
		group.Go(m.Stop)
	}
	f.Hub.Process.Kill()
	group.Go(f.Hub.Stop)
	group.Wait()
	if f.Paths != nil {
		f.Paths.Close()
	}
}

// Member returns the member of that name.
func (f *Fleet) Member(name string) *Member {
	f.Helper()
	for _, m := range f.Members {
		if m.Spec.Name == name {
			return m
		}
	}
	f.Fatalf("the fleet has no member %s", name)
	return nil
}

// allReady returns nil once the hub and every member see every member as ready.
func (f *Fleet) allReady() error {
	var errs []error
	for _, of := range f.Members {
		errs = append(errs, f.Hub.PhaseIs(of.Spec.Name, clustersetv1alpha1.MemberReady))
		for _, at := range f.Members {
			errs = append(errs, at.PhaseIs(of.Spec.Name, clustersetv1alpha1.MemberReady))
		}
	}
	return errors.Join(errs...)
}

// AllReached returns nil once every member can reach every other that has beacons. What was never reached has no verdict.
func (f *Fleet) AllReached() error {
	var errs []error
	for _, of := range f.Members {
		for _, at := range f.Members {
			if of.Spec.Beacons && of != at {
				errs = append(errs, at.Reaches(of.Spec.Name))
			}
		}
	}
	return errors.Join(errs...)
}

// Settle waits until the hub and every member see every member as ready.
func (f *Fleet) Settle() {
	f.Helper()
	kube.Eventually(f, f.allReady)
}

var namespaces struct {
	sync.Mutex
	n int
}

// Namespace makes a namespace for this test in every member and returns its name, which starts with the given name. When
// the test ends, everything exported from it is un-exported.
func (f *Fleet) Namespace(name string) string {
	f.Helper()
	name = Numbered(name)
	for _, m := range f.Members {
		m.Namespace(name)
	}
	return name
}

// Numbered returns a name that no other test has, and no other run of this one.
func Numbered(name string) string {
	namespaces.Lock()
	defer namespaces.Unlock()
	namespaces.n++
	return fmt.Sprintf("%s-%d", name, namespaces.n)
}

// Eventually waits until ok returns nil for every member.
func (f *Fleet) Eventually(ok func(*Member) error) {
	f.Helper()
	kube.Eventually(f, func() error {
		var errs []error
		for _, m := range f.Members {
			if err := ok(m); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", m.Spec.Name, err))
			}
		}
		return errors.Join(errs...)
	})
}

// Took logs how long a step took. The Multi-Cluster Services conformance suite allows 20 s for such steps.
func Took(t testing.TB, what string, since time.Time) {
	t.Helper()
	t.Logf("%s took %s", what, time.Since(since).Round(10*time.Millisecond))
}

// Rejoin joins every member again, all at the same time.
func (f *Fleet) Rejoin() {
	f.Helper()
	var group errgroup.Group
	for _, m := range f.Members {
		group.Go(func() error { return m.Join(context.Background(), f.Hub, "--rejoin") })
	}
	if err := group.Wait(); err != nil {
		f.Fatal(err)
	}
}
