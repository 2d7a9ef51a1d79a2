package fleettest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// turns has a channel for each fleet name, with the numbers of the fleets that no test is using.
var turns sync.Map

// atOnce limits how many fleets the tests of a package use at a time. Two packages run at a time, and with more fleets API servers
// don't start in time on two processors.
var atOnce = make(chan struct{}, 3)

// takeTurn waits until one of the fleets of that name is free, reserves it until the test has ended, and returns its number. Tests
// that use different fleets run at the same time, because they mostly wait. The test's own cleanups are registered later, so they
// run before the fleet is released.
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
	atOnce <- struct{}{}
	t.Cleanup(func() { <-atOnce })
	Took(t, "waiting for its turn", began)
	return n
}

// Alone waits until no other test has a fleet of its own.
func Alone(t *testing.T) {
	t.Helper()
	takeTurn(t, "", 1)
}

// shared has the fleets that several tests use. The first test of a fleet starts it.
var shared sync.Map

type sharedFleet struct {
	start sync.Once
	fleet *Fleet
	err   error
}

// Shared waits for the test's turn and returns one of the fleets of that name. The first call for a fleet starts it.
func Shared(t *testing.T, name string, fleets int, specs ...Spec) *Fleet {
	t.Helper()
	SkipIfShort(t)
	name = fmt.Sprintf("%s-%d", name, takeTurn(t, name, fleets))
	entry, _ := shared.LoadOrStore(name, &sharedFleet{})
	s := entry.(*sharedFleet)
	s.start.Do(func() {
		dir := filepath.Join(workDir, name)
		began := time.Now()
		if s.err = os.Mkdir(dir, 0o700); s.err == nil {
			s.fleet, s.err = launch(context.Background(), dir, specs) // it outlives the test
		}
		Took(t, "starting the fleet "+name, began)
	})
	if s.err != nil {
		t.Fatalf("start the fleet %s: %v", name, s.err)
	}
	return s.fleet.For(t)
}

func stopShared() {
	shared.Range(func(_, s any) bool {
		if f := s.(*sharedFleet).fleet; f != nil {
			f.Stop()
		}
		return true
	})
}
