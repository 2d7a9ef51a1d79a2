package membership

import (
	"fmt"
	"testing"
	"time"
)

const interval = 10 * time.Second

// agent is a Name with a clock.
type agent struct {
	Name
	now time.Time
}

func newAgent(run string) *agent {
	began := time.Unix(1_000_000, 0)
	return &agent{Name{Cluster: "us", Run: run, Started: began, Interval: interval}, began}
}

// lease returns a Lease that a run of a cluster renewed at a time in seconds.
func lease(cluster, run string, renewed int64) Lease {
	return Lease{Found: true, Cluster: cluster, Run: run, Renewed: renewed * 1e6}
}

func (a *agent) see(l Lease) Decision {
	d := a.See(l, a.now)
	a.now = a.now.Add(interval)
	return d
}

// renew renews the Lease at a time in seconds, and returns what the hub then has.
func (a *agent) renew(at int64) Lease {
	a.Renewing(at * 1e6)
	a.Renewed()
	return lease("us", a.Run, at)
}

// Rule C26 of docs/spec/control-plane.md: when the name becomes ours.
func TestWaiting(t *testing.T) {
	yielding := lease("us", "them", 1)
	yielding.Yields = "2026-01-01T00:00:00Z"
	for _, c := range []struct {
		name  string
		own   string
		shows func(look int) Lease
		after int   // looks until the name is ours, -1: never
		state State // after ten looks
		says  int   // how often we say that we yield in the first ten looks
	}{
		{"no Lease", "us", func(int) Lease { return Lease{} }, 1, Ours, 0},
		{"our own of before", "us", func(int) Lease { return lease("us", "before", 1) }, 1, Ours, 0},
		{"one that names no cluster", "us", func(int) Lease { return lease("", "", 1) }, 1, Ours, 0},
		{"we don't know who we are", "", func(i int) Lease { return lease("them", "x", int64(i)) }, 1, Ours, 0},
		{"another cluster's, silent", "us", func(int) Lease { return lease("them", "x", 1) }, 5, Ours, 0},
		{"another cluster's, alive", "us", func(i int) Lease { return lease("them", "x", int64(i)) }, -1, Taken, 0},
		{"another cluster's, until it stops", "us", func(i int) Lease { return lease("them", "x", int64(min(i, 3))) }, 8, Ours, 0},
		{"a clone yields to who had it, who is silent", "us", func(int) Lease { return yielding }, 4, Ours, 0},
		{"we are the clone", "us", func(i int) Lease { l := yielding; l.Renewed = int64(i); return l }, -1, Cloned, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAgent("run")
			a.Cluster = c.own
			after, says, state := -1, 0, Unclaimed
			for look := range 10 {
				d := a.see(c.shows(look))
				if state = d.State; state.Held() && after < 0 {
					after = look + 1
				}
				if d.Write == Yields {
					says++
				}
			}
			if after != c.after || state != c.state || says != c.says {
				t.Errorf("ours after %d looks, in the end %v, said %d times; want %d, %v, %d", after, state, says, c.after, c.state, c.says)
			}
		})
	}
}

// The Lease shows whether the hub has been restored to an earlier state since the last renewal.
func TestRestored(t *testing.T) {
	a := newAgent("2")
	is := func(what string, l Lease, want State) {
		t.Helper()
		if d := a.see(l); d.State != want {
			t.Errorf("%s: %v, want %v", what, d.State, want)
		}
	}
	is("the Lease of the process before us", lease("us", "1", 0), Ours)
	first := a.renew(1)
	is("what we wrote", first, Ours)
	a.Renewing(2e6)
	is("a renewal that didn't arrive", first, Ours)
	is("one whose answer got lost", lease("us", "2", 2), Ours)
	a.renew(3)
	is("an earlier one of ours", first, Restored)
	is("the same, which has been said", first, Ours)
	a.renew(4)
	is("set back once more, to the same", first, Restored)
	a.renew(5)
	is("that of the process before us", lease("us", "1", 0), Restored)
	a.renew(6)
	is("none", Lease{}, Restored)
	for i := range int64(2 * MaxUnconfirmed) {
		a.Renewing((10 + i) * 1e6)
	}
	if n := len(a.hold.wrote); n > MaxUnconfirmed {
		t.Errorf("it remembers %d renewals", n)
	}
	is("the last of many that got no answer", lease("us", "2", 9+2*MaxUnconfirmed), Ours)
}

// Rule C26 of docs/spec/control-plane.md: how the name is lost, and comes back.
func TestLosing(t *testing.T) {
	for name, c := range map[string]struct {
		theirs   func(a *agent, at int64) Lease
		states   string // of the first looks
		patience int    // looks at a silent Lease until the name is ours again
		writes   Write  // then
	}{
		"another cluster's": {
			func(_ *agent, at int64) Lease { return lease("them", "x", at) }, "[Taken Taken Taken Taken]", 4, Nothing,
		},
		"a clone that started earlier": {
			func(a *agent, at int64) Lease {
				l := lease("us", "x", at)
				l.Started = a.Started.Add(-time.Hour)
				return l
			},
			"[Restored Contested Cloned Cloned]", YieldFor, NoClone,
		},
		"a clone that started later": {
			func(a *agent, at int64) Lease {
				l := lease("us", "x", at)
				l.Started = a.Started.Add(time.Hour)
				return l
			},
			"[Restored Contested Contested Contested]", 0, Nothing,
		},
		"a clone of the same time, whose run comes later": {
			func(a *agent, at int64) Lease { l := lease("us", "x", at); l.Started = a.Started; return l },
			"[Restored Contested Contested Contested]", 0, Nothing,
		},
		"none: the last renewal of the one before us, again and again": {
			func(*agent, int64) Lease { return lease("us", "x", 10) }, "[Restored Restored Restored Restored]", 0, Nothing,
		},
		"one that doesn't say when it started": {
			func(_ *agent, at int64) Lease { return lease("us", "x", at) }, "[Restored Contested Contested Contested]", 0, Nothing,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgent("run")
			a.see(Lease{})
			a.see(a.renew(1))
			var states []State
			for at := range int64(4) {
				d := a.see(c.theirs(a, 10+at))
				if states = append(states, d.State); d.State.Held() {
					a.renew(100 + at)
				}
			}
			if got := fmt.Sprint(states); got != c.states {
				t.Errorf("%s, want %s", got, c.states)
			}
			if c.patience == 0 {
				return
			}
			silent := c.theirs(a, 13)
			for look := 1; ; look++ {
				d := a.see(silent)
				if !d.State.Held() && look <= c.patience {
					continue
				}
				if look != c.patience || d.State != Ours || d.Write != c.writes {
					t.Errorf("%v after %d looks, writes %d; want %d looks and %d", d.State, look, d.Write, c.patience, c.writes)
				}
				break
			}
			if a.Confirmed() {
				t.Error("it compares the Lease with what it wrote before it lost the name")
			}
			if d := a.see(silent); d.State != Ours {
				t.Errorf("the next look: %v", d.State)
			}
			if d := a.see(a.renew(200)); d.State != Ours {
				t.Errorf("after the first renewal: %v", d.State)
			}
			if d := a.see(silent); d.State != Restored && d.State != Taken { // their last renewal again: the hub was restored
				t.Errorf("their last renewal, of a backup: %v", d.State)
			}
		})
	}
}

// Who goes on reports the clone that yields once, and removes what it wrote when it is gone.
func TestACloneThatYieldsIsReported(t *testing.T) {
	a := newAgent("run")
	a.see(Lease{})
	with := func(l Lease, yields string) Lease { l.Yields = yields; return l }
	if d := a.see(with(a.renew(1), "")); d.Clone != 0 || d.Write != Nothing {
		t.Errorf("without a clone: %+v", d)
	}
	if d := a.see(with(a.renew(2), "a")); d.Clone != 1 {
		t.Errorf("it has appeared: %+v", d)
	}
	for i := range YieldFor + 2 {
		d := a.see(with(a.renew(int64(3+i)), "a"))
		if gone := i >= YieldFor; d.Clone != 0 || (d.Write == NoClone) != gone {
			t.Errorf("after %d looks: %+v", i+1, d)
		}
	}
	if d := a.see(with(a.renew(99), "")); d.Clone != -1 {
		t.Errorf("it is gone: %+v", d)
	}
}
