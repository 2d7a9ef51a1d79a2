package verdict

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// path is what happens to a dial to a cluster: how long it takes and, unless it succeeds, why.
type path func(cluster string, began time.Time) (took time.Duration, why Reason)

const timeout = 3 * time.Second

// The paths of tests.
func good(string, time.Time) (time.Duration, Reason)    { return 10 * time.Millisecond, "" }
func cut(string, time.Time) (time.Duration, Reason)     { return timeout, NoAnswer }
func refused(string, time.Time) (time.Duration, Reason) { return 10 * time.Millisecond, Refused }
func wrong(string, time.Time) (time.Duration, Reason)   { return 10 * time.Millisecond, WrongCluster }

// only changes the paths to some clusters.
func only(of path, clusters string) path {
	return func(c string, began time.Time) (time.Duration, Reason) {
		if slices.Contains(strings.Fields(clusters), c) {
			return of(c, began)
		}
		return good(c, began)
	}
}

// script runs a Machine on a clock of its own, with a decision every 100 ms.
type script struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	path    path
	awake   func(time.Time) bool // whether this process runs; nil: always
	open    []dial
	last    map[string]Verdict
	changes []string
}

type dial struct {
	cluster    string
	began, end time.Time
	took       time.Duration
	why        Reason
}

func newScript(t *testing.T, clusters ...string) *script {
	s := &script{t: t, m: New(), now: epoch, path: good}
	s.m.Set(clusters, nil, s.now)
	return s
}

func (s *script) run(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(100 * time.Millisecond) {
		if s.awake != nil && !s.awake(s.now) {
			continue
		}
		slices.SortStableFunc(s.open, func(a, b dial) int { return a.end.Compare(b.end) })
		for len(s.open) > 0 && !s.open[0].end.After(s.now) {
			d := s.open[0]
			s.open = s.open[1:]
			s.m.Done(d.cluster, d.began, s.now, d.took, d.why)
		}
		verdicts, _ := s.m.Decide(s.now)
		for name, v := range verdicts {
			if was, ok := s.last[name]; ok && was.Reachable != v.Reachable {
				s.changes = append(s.changes, fmt.Sprintf("%s %d→%d after %s", name, was.Reachable, v.Reachable, s.now.Sub(epoch)))
			}
		}
		s.last = verdicts
		for _, name := range s.m.Due(s.now) {
			took, why := s.path(name, s.now)
			if took > timeout {
				took, why = timeout, NoAnswer
			}
			s.open = append(s.open, dial{name, s.now, s.now.Add(took), took, why})
		}
	}
}

func (s *script) is(cluster string, r Reachable, why Reason) {
	s.t.Helper()
	if v := s.last[cluster]; v.Reachable != r || v.Reason != why {
		s.t.Errorf("after %s, %s is %+v, want %d, %s", s.now.Sub(epoch), cluster, v, r, why)
	}
}

// until runs until a cluster has the verdict, and returns how long that took.
func (s *script) until(cluster string, r Reachable, most time.Duration) time.Duration {
	s.t.Helper()
	began := s.now
	for s.last[cluster].Reachable != r {
		if s.now.Sub(began) > most {
			s.t.Fatalf("%s is %+v after %s", cluster, s.last[cluster], s.now.Sub(began))
		}
		s.run(100 * time.Millisecond)
	}
	return s.now.Sub(began)
}

// Rules D47 and D50 of docs/spec/data-path.md.
func TestClusterThatCannotBeReached(t *testing.T) {
	for name, p := range map[string]path{"no answer": cut, "refused": refused, "wrong": wrong} {
		t.Run(name, func(t *testing.T) {
			for offset := range 10 { // of the cut from the dials
				s := newScript(t, "b", "c", "d")
				s.run(10*time.Second + time.Duration(offset)*100*time.Millisecond)
				s.is("b", True, Answers)
				s.path = only(p, "b")
				if took := s.until("b", False, time.Minute); took > 5500*time.Millisecond || took < 3*time.Second {
					t.Errorf("unreachable after %s", took)
				}
				_, why := p("b", s.now)
				s.is("b", False, why)
				s.is("c", True, Answers)
				s.run(10 * time.Minute)
				s.is("b", False, why)
				s.path = good
				s.run(2 * time.Second)
				s.is("b", False, Returning)
				if took := s.until("b", True, time.Minute); took > 10*time.Second {
					t.Errorf("reachable %s later", took)
				}
			}
		})
	}
}

// The agent is cut off, or all others are dead. Rule D47.
func TestNothingChangesWithoutAWitness(t *testing.T) {
	for name, p := range map[string]path{"no answer": cut, "refused": refused} {
		for offset := range 20 {
			s := newScript(t, "b", "c", "d")
			s.run(10*time.Second + time.Duration(offset)*100*time.Millisecond)
			s.path = p
			s.run(time.Minute)
			for _, c := range []string{"b", "c", "d"} {
				s.is(c, True, AllUnreachable)
			}
			// c is back first, so the others are really unreachable.
			s.path = only(p, "b d")
			s.run(10 * time.Second)
			s.is("c", True, Answers)
			s.is("b", False, cmp.Or(map[bool]Reason{true: Refused}[name == "refused"], NoAnswer))
			if t.Failed() {
				t.Fatalf("%s, offset %d", name, offset)
			}
		}
	}
}

// The agent is cut off and comes back: whichever cluster answers first says nothing of those that haven't been dialled since. Rule D47.
func TestFirstToAnswerAgainIsNoWitness(t *testing.T) {
	for name, p := range map[string]path{"no answer": cut, "refused": refused} {
		t.Run(name, func(t *testing.T) {
			for _, clusters := range []int{2, 3, 40} {
				var all []string
				for i := range clusters {
					all = append(all, fmt.Sprint("c", i))
				}
				for tenths := 0; tenths < 100; tenths += 3 {
					s := newScript(t, all...)
					s.run(20 * time.Second)
					s.changes, s.path = nil, p
					s.run(3*time.Second + time.Duration(tenths)*100*time.Millisecond)
					s.path = good
					s.run(time.Minute)
					if len(s.changes) > 0 {
						t.Fatalf("%d clusters, cut off for %d.%d s: %v", clusters, 3+tenths/10, tenths%10, s.changes)
					}
				}
			}
		})
	}
}

func TestOnlyOtherClusterNeedsNoWitness(t *testing.T) {
	s := newScript(t, "b")
	s.run(10 * time.Second)
	s.path = cut
	s.until("b", False, 6*time.Second)

	s = newScript(t, "b", "c")
	s.run(10 * time.Second)
	s.path = only(cut, "b")
	s.until("b", False, 6*time.Second)
	s.path = cut // b doesn't count: it is unreachable already
	s.until("c", False, 6*time.Second)
}

// Rule D48.
func TestClusterThatWasNeverReachedIsUnknown(t *testing.T) {
	s := newScript(t, "b", "c")
	s.path = only(cut, "b")
	s.run(time.Hour)
	s.is("b", Unknown, NeverReached)
	s.is("c", True, Answers)
	s.path = only(wrong, "b")
	s.run(time.Minute)
	s.is("b", Unknown, WrongCluster)
	s.path = good
	s.run(5 * time.Second)
	s.is("b", True, Answers)
}

// A cluster that can't be reached states no beacons: that ends it no sooner than an answer, and doesn't shorten the next delay. Rule D50 of
// docs/spec/data-path.md.
func TestDampingOutlivesNoBeacon(t *testing.T) {
	s := newScript(t, "b", "c")
	without := func(d time.Duration) {
		for end := s.now.Add(d); s.now.Before(end); s.run(100 * time.Millisecond) {
			s.m.Set([]string{"c"}, map[string]Reason{"b": NoBeacon}, s.now)
		}
	}
	again := func(p path) {
		s.path = p
		s.m.Set([]string{"b", "c"}, nil, s.now)
	}
	s.run(10 * time.Second)
	for _, delay := range []time.Duration{10 * time.Second, 20 * time.Second} {
		again(only(cut, "b"))
		s.until("b", False, 6*time.Second)
		without(delay)
		s.is("b", False, NoAnswer)
		without(100 * time.Millisecond)
		s.is("b", Unknown, NoBeacon)
		again(good)
		s.until("b", True, 2*time.Second)
	}

	again(only(cut, "b"))
	s.until("b", False, 6*time.Second)
	without(time.Second)
	again(good) // while the delay of 40 s lasts
	s.run(2 * time.Second)
	s.is("b", False, Returning)
	s.run(36 * time.Second)
	s.is("b", False, Returning)
	s.until("b", True, 2*time.Second)

	again(only(cut, "b"))
	s.until("b", False, 6*time.Second)
	without(79 * time.Second)
	s.changes = nil
	again(only(cut, "b")) // the delay of 80 s is over before it is known whether it answers
	s.run(time.Minute)
	s.is("b", False, NoAnswer)
	if len(s.changes) > 0 {
		t.Error(s.changes)
	}
}

// Rule D49: the process stands still for longer than any dial takes, while an answer waits for each.
func TestTimeInWhichTheAgentStoodStillDoesNotCount(t *testing.T) {
	s := newScript(t, "b", "c", "d")
	s.run(10 * time.Second)
	s.changes = nil
	s.path = only(func(_ string, began time.Time) (time.Duration, Reason) {
		if began.Add(20*time.Millisecond).After(s.now) && int(began.Sub(epoch).Seconds())%10 == 9 {
			return timeout, NoAnswer // its deadline passes while nothing runs
		}
		return 10 * time.Millisecond, ""
	}, "b")
	s.awake = func(now time.Time) bool { return now.Sub(epoch)%(20*time.Second) < 10*time.Second }
	s.run(time.Hour)
	if len(s.changes) > 0 {
		t.Error(s.changes)
	}
}

// lossy is a path on which one of n packets is lost in each direction: a SYN or its answer is repeated after 1 s, a segment of the
// answer after 200 ms, 400 ms and so on.
func lossy(rng *rand.Rand, n int) path {
	lost := func() bool { return rng.IntN(n) == 0 }
	return func(string, time.Time) (took time.Duration, why Reason) {
		took = 20 * time.Millisecond
		for wait := time.Second; lost() || rng.IntN(n) == 0; wait *= 2 {
			took += wait
		}
		for range 3 {
			for wait := 200 * time.Millisecond; lost(); wait *= 2 {
				took += wait
			}
		}
		return took, ""
	}
}

func slow(string, time.Time) (time.Duration, Reason) { return time.Second, "" } // two round trips of 500 ms

func TestNoFalseAlarms(t *testing.T) {
	var twenty []string
	for i := range 20 {
		twenty = append(twenty, fmt.Sprint("c", i))
	}
	tenth := func(now time.Time) bool { return now.Sub(epoch)%time.Second < 100*time.Millisecond }
	for name, c := range map[string]struct {
		path  path
		awake func(time.Time) bool
	}{
		"an hour of 5 % packet loss":                    {lossy(rand.New(rand.NewPCG(1, 2)), 20), nil},
		"an hour of round trips of 500 ms":              {slow, nil},
		"an hour with a tenth of the processor":         {good, tenth},
		"5 % packet loss with a tenth of the processor": {lossy(rand.New(rand.NewPCG(3, 4)), 20), tenth},
		"": {lossy(rand.New(rand.NewPCG(5, 6)), 2), nil}, // this can fail
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, twenty...)
			s.run(time.Minute) // until all are reached
			for name, v := range s.last {
				if v.Reachable != True {
					t.Fatalf("%s: %+v", name, v)
				}
			}
			s.path, s.awake, s.changes = c.path, c.awake, nil
			s.run(time.Hour)
			if len(s.changes) > 0 != (name == "") {
				t.Error(s.changes)
			}
		})
	}
}

// Rule D45.
func TestDue(t *testing.T) {
	opened := func(n int) []time.Time { return slices.Repeat([]time.Time{epoch}, n) }
	for _, c := range []struct {
		name  string
		s     schedule
		after time.Duration
		want  bool
	}{
		{"early", schedule{dialled: true}, time.Minute - 1, false},
		{"in time", schedule{dialled: true}, time.Minute, true},
		{"no beacon", schedule{}, time.Minute, false},
		{"after a failure", schedule{dialled: true, bad: true}, time.Second, true},
		{"one is open", schedule{dialled: true, open: opened(1)}, 1500*time.Millisecond - 1, false},
		{"one is late", schedule{dialled: true, open: opened(1)}, 1500 * time.Millisecond, true},
		{"three are late", schedule{dialled: true, open: opened(3)}, time.Minute, false},
	} {
		c.s.began = epoch
		if got := c.s.due(time.Minute, epoch.Add(c.after)); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// Rules D47 and D49, to the nanosecond.
func TestWhenSilenceCounts(t *testing.T) {
	alone := func() *Machine {
		m := New()
		m.Know("b", Verdict{Reachable: True, Reached: true, Since: epoch}, epoch)
		m.Set([]string{"b"}, nil, epoch)
		m.Decide(epoch)
		for range failures {
			m.Done("b", epoch, epoch, 0, Refused)
		}
		return m
	}
	m := alone()
	for _, at := range []time.Duration{1 * time.Second, 2 * time.Second, 3 * time.Second, 4*time.Second - 1} {
		all, _ := m.Decide(epoch.Add(at))
		if got := all["b"]; got.Reachable != True {
			t.Errorf("after %s: %+v", at, got)
		}
	}
	all, _ := m.Decide(epoch.Add(4 * time.Second))
	if got := all["b"]; got.Reachable != False || got.Reason != Refused {
		t.Errorf("after 4 s: %+v", got)
	}
}
