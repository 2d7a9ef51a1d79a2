package clusterset

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
)

// register registers sources as running, until the test ends or forget is called.
func register(t *testing.T, all ...*source) (forget func()) {
	t.Helper()
	ss := &sources{byKey: map[string]*source{}}
	for i, s := range all {
		ss.byKey[string(rune('a'+i))] = s
	}
	started.mu.Lock()
	defer started.mu.Unlock()
	if started.all == nil {
		started.all = map[*sources]bool{}
	}
	started.all[ss] = true
	forget = func() {
		started.mu.Lock()
		defer started.mu.Unlock()
		delete(started.all, ss)
	}
	t.Cleanup(forget)
	return forget
}

// When two servers overlap during a reload, the new one takes over the file: the old one writes it before the new one reads
// it, and never after that.
func TestAReloadHandsTheStateFileOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		before, after := keptSource(t, path, 0), keptSource(t, path, 0)
		register(t, before, after)
		before.start()
		syncAll(before, numberedVIP(1))
		pass(time.Second)
		before.put(index.KindServiceImport, index.ObjectID{}, numberedVIP(2), nil) // not written yet
		after.start()
		stale := after.indexes[0].Snapshot()
		if stale == nil || !stale.Stale() || stale.Service("web.ns").Set(index.MCS).Addrs[0] != numberedVIP(2).IPs[0] {
			t.Error("the new server doesn't know what the old one knew")
		}
		syncAll(after, numberedVIP(3))
		pass(time.Second)
		before.close()
		if got := readState(t, path).Objects; !reflect.DeepEqual(got, []index.Object{numberedVIP(3)}) {
			t.Errorf("the old server wrote last: %v", got)
		}
		after.close()
	})
}

func TestStateFilesOfNoUse(t *testing.T) {
	state := func(change func(*statefile.State)) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			s := &statefile.State{Known: time.Now().Add(-time.Minute), Cluster: thisCluster, Objects: []index.Object{numberedVIP(1)}}
			change(s)
			if err := statefile.Write(path, s); err != nil {
				t.Fatal(err)
			}
		}
	}
	garbage := func(data string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, row := range []struct {
		name   string
		write  func(t *testing.T, path string)
		result string
		serves bool
	}{
		{"a good one", state(func(*statefile.State) {}), "ok", true},
		{"of a cluster that isn't known by more than its UID", state(func(s *statefile.State) { s.Cluster = statefile.Cluster{} }), "ok", true},
		{"none", func(*testing.T, string) {}, "absent", false},
		{"another cluster's", state(func(s *statefile.State) { s.Cluster.UID = "there" }), "refused", false},
		{"too old", state(func(s *statefile.State) { s.Known = time.Now().Add(-2 * time.Hour) }), "refused", false},
		{"of tomorrow: some clock was wrong", state(func(s *statefile.State) { s.Known = time.Now().Add(24 * time.Hour) }), "ok", true},
		{"written for other namespaces", state(func(s *statefile.State) { s.Namespaces = []string{"other"} }), "ok", false},
		{"written for these and more", state(func(s *statefile.State) { s.Namespaces = []string{"ns", "other"} }), "ok", true},
		{"empty", garbage(""), "refused", false},
		{"text", garbage("{}"), "refused", false},
		{"of a later format", garbage(`{"apiVersion":"v1","kind":"List","state":{"version":3,"known":1},"items":[]}`), "refused", false},
		{"a folder", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "refused", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "snapshot")
			row.write(t, path)
			count := counterValue(t, stateReads.WithLabelValues(row.result))
			s := keptSource(t, path, time.Hour, "ns")
			s.start()
			defer s.close()
			if got := counterValue(t, stateReads.WithLabelValues(row.result)); got != count+1 {
				t.Errorf("%s was counted %v times", row.result, got-count)
			}
			if got := s.indexes[0].Snapshot() != nil; got != row.serves {
				t.Errorf("served: %v", got)
			}
			// In all cases the server continues with live objects.
			syncAll(s, numberedVIP(2))
			if x := s.indexes[0].Snapshot(); x == nil || x.Stale() || x.Service("web.ns") == nil {
				t.Error("what is live isn't served")
			}
		})
	}
}

// The maximum age of a state holds while it is served, too. What was read since has none.
func TestARestoredStateEndsAtItsMaximumAge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	synctest.Test(t, func(t *testing.T) {
		known := time.Now().Add(-time.Hour)
		err := statefile.Write(path, &statefile.State{Known: known, Cluster: thisCluster, Objects: []index.Object{numberedVIP(1)}})
		if err != nil {
			t.Fatal(err)
		}
		for _, synced := range []bool{false, true} {
			s := keptSource(t, path, 2*time.Hour)
			s.start()
			pass(time.Until(known.Add(2*time.Hour - time.Second)))
			if s.indexes[0].Snapshot() == nil {
				t.Fatal("not served")
			}
			if synced {
				syncAll(s, numberedVIP(1))
			}
			pass(2 * time.Second)
			if got := s.indexes[0].Snapshot() != nil; got != synced {
				t.Errorf("synced %v: served at the maximum age: %v", synced, got)
			}
			s.close()
			known = time.Now().Add(-time.Hour)
			if err := statefile.Write(path, &statefile.State{Known: known, Cluster: thisCluster, Objects: []index.Object{numberedVIP(1)}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The maximum age is that by the clock as it is corrected, not as it was at the start: a machine may start with a clock that is wrong.
func TestARestoredStateEndsWhenTheClockIsCorrected(t *testing.T) {
	defer func() { wallClock = time.Now }()
	for _, row := range []struct {
		name   string
		age    time.Duration // by the right clock, at the start
		ahead  time.Duration // by how much the clock is wrong then
		maxAge time.Duration
		served time.Duration // how long the state is served
	}{
		{"an hour ahead", 22 * time.Hour, time.Hour, 24 * time.Hour, 2 * time.Hour},
		{"three days behind", 72 * time.Hour, -72 * time.Hour, 24 * time.Hour, time.Minute},
		{"three days behind, without a maximum age", 72 * time.Hour, -72 * time.Hour, 0, 3 * time.Hour},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "snapshot")
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				wallClock = func() time.Time {
					if time.Since(began) < time.Minute {
						return time.Now().Add(row.ahead)
					}
					return time.Now() // corrected
				}
				known := began.Add(-row.age)
				if err := statefile.Write(path, &statefile.State{Known: known, Cluster: thisCluster, Objects: []index.Object{numberedVIP(1)}}); err != nil {
					t.Fatal(err)
				}
				s := keptSource(t, path, row.maxAge)
				s.start()
				defer s.close()
				for ; time.Since(began) < row.served; pass(time.Second) {
					if s.indexes[0].Snapshot() == nil {
						t.Fatalf("not served after %v", time.Since(began))
					}
				}
				pass(agePoll + time.Second)
				if served := s.indexes[0].Snapshot() != nil; served != (row.maxAge == 0) {
					t.Errorf("served after %v: %t", time.Since(began), served)
				}
			})
		})
	}
}

// The UID of the namespace kube-system can only be read once the API server is reachable.
func TestAStateOfAnotherClusterIsWithdrawnWhenThatShows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "snapshot")
	err := statefile.Write(path, &statefile.State{Known: time.Now(), Cluster: statefile.Cluster{UID: "there", CAs: []string{"shared"}}, Objects: []index.Object{numberedVIP(1)}})
	if err != nil {
		t.Fatal(err)
	}
	s := keptSource(t, path, 0)
	known := statefile.Cluster{CAs: []string{"shared"}}
	s.keeper.cluster = func() statefile.Cluster { return known }
	s.start()
	defer s.close()
	s.keeper.recognised()
	if s.indexes[0].Snapshot() == nil {
		t.Fatal("not served")
	}
	known.UID = "here"
	s.keeper.recognised()
	if s.indexes[0].Snapshot() != nil {
		t.Error("still served")
	}
}
