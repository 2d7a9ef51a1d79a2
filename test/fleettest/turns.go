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

// turns has a channel for each fleet name, with the fleets that no test is using.
var turns sync.Map

// shared is a fleet that several tests use. The first of them starts it.
type shared struct {
	dir   string
	fleet *Fleet
	err   error
}

// atOnce limits how many fleets the tests of a package use at a time. Two packages run at a time, and with more fleets, some heartbeats
// arrive too late on two shared processors.
var atOnce = make(chan struct{}, 2)

// takeTurn waits until one of the fleets of that name is free, reserves it until the test has ended, and returns it. Tests
// that use different fleets run at the same time, because they mostly wait. The test's own cleanups are registered later, so they
// run before the fleet is released.
func takeTurn(t *testing.T, name string, fleets int) *shared {
	t.Helper()
	t.Parallel()
	free := make(chan *shared, fleets)
	for n := range fleets {
		free <- &shared{dir: filepath.Join(workDir, fmt.Sprintf("%s-%d", name, n))}
	}
	entry, _ := turns.LoadOrStore(name, free)
	free = entry.(chan *shared)
	began := time.Now()
	s := <-free
	t.Cleanup(func() { free <- s })
	atOnce <- struct{}{}
	t.Cleanup(func() { <-atOnce })
	Took(t, "waiting for its turn", began)
	return s
}

// starting lets one fleet of the package start at a time. Three that start together take three times as long each, and time out.
var starting sync.Mutex

// Alone waits until no other test has a fleet of its own.
func Alone(t *testing.T) {
	t.Helper()
	takeTurn(t, "", 1)
}

// Shared waits for the test's turn and returns one of the fleets of that name. The first call for a fleet starts it.
func Shared(t *testing.T, name string, fleets int, specs ...Spec) *Fleet {
	t.Helper()
	SkipIfShort(t)
	s := takeTurn(t, name, fleets)
	if s.fleet == nil && s.err == nil {
		began := time.Now()
		if s.err = os.Mkdir(s.dir, 0o700); s.err == nil {
			s.fleet, s.err = launch(context.Background(), s.dir, specs) // it outlives the test
		}
		Took(t, "starting the fleet "+name, began)
	}
	if s.err != nil {
		t.Fatalf("start the fleet %s: %v", name, s.err)
	}
	return s.fleet.For(t)
}

// stopShared stops all fleets. No test uses any of them any more.
func stopShared() {
	turns.Range(func(_, free any) bool {
		for n := len(free.(chan *shared)); n > 0; n-- {
			if f := (<-free.(chan *shared)).fleet; f != nil {
				f.Stop()
			}
		}
		return true
	})
}
