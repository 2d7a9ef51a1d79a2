package liveness

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/test/script"
)

func TestScripts(t *testing.T) {
	script.Run(t, "testdata/phases.txtar", func(*testing.T) map[string]script.Command {
		h := newHub()
		return map[string]script.Command{
			"know": func(names ...string) error { h.know("", time.Time{}, names...); return nil },
			"knew": script.OneOrMore(func(phase string, more ...string) error {
				return script.For(func(ago time.Duration, names ...string) error {
					h.know(clustersetv1alpha1.MemberClusterPhase(phase), time.Now().Add(-ago), names...)
					return nil
				})(more...)
			}),
			"lie": func(names ...string) error {
				for _, name := range names {
					h.beats[name] = 1
				}
				return nil
			},
			"run": script.For(func(d time.Duration, beating ...string) error { h.run(d, beating...); return nil }),
			"alternate": script.For(func(d time.Duration, turns ...string) error {
				if len(turns) != 4 {
					return fmt.Errorf("%d arguments, want two durations and who is heard in each", len(turns))
				}
				return h.alternate(d, turns)
			}),
			"drop": script.One(func(name string) error { h.l.Drop(name); return nil }),
			"want": func(phases ...string) error {
				if got := h.phases(); !slices.Equal(got, phases) {
					return fmt.Errorf("after %s: %v", time.Since(h.began), got)
				}
				return nil
			},
		}
	})
}

// hub is a Liveness. The running members send a heartbeat every 10 s, and there is a decision every 5 s.
type hub struct {
	began time.Time
	l     *Liveness
	beats map[string]int
	last  map[string]Decision
}

func newHub() *hub {
	return &hub{began: time.Now(), l: New(DefaultThresholds), beats: map[string]int{}}
}

// know adds members with the status that an earlier process wrote.
func (h *hub) know(phase clustersetv1alpha1.MemberClusterPhase, heard time.Time, names ...string) {
	for _, name := range names {
		h.l.Know(name, phase, heard, time.Now())
	}
}

// run lets time go on while some members send heartbeats. The last Leases of the others are observed again and again, as after a relist.
func (h *hub) run(d time.Duration, beating ...string) {
	for end := time.Now().Add(d); time.Now().Before(end); script.Elapse(5 * time.Second) {
		now := time.Now()
		if now.Sub(h.began)%(10*time.Second) == 0 {
			for _, name := range beating {
				h.beats[name]++
			}
		}
		for name, beat := range h.beats {
			h.l.Observe(name, fmt.Sprint(beat), now)
		}
		h.last = h.l.Decide(now)
	}
}

// alternate runs for a duration in turn with some members, and for another with others.
func (h *hub) alternate(all time.Duration, turns []string) error {
	for end := time.Now().Add(all); time.Now().Before(end); {
		for turn := range slices.Chunk(turns, 2) {
			d, err := time.ParseDuration(turn[0])
			if err != nil {
				return err
			}
			h.run(d, strings.Fields(turn[1])...)
		}
	}
	return nil
}

// phases returns the last decisions, such as a=Ready and b=Suspect*.
func (h *hub) phases() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(h.last)) {
		d := h.last[name]
		phase := name + "=" + string(d.Phase)
		if d.Paused {
			phase += "*"
		}
		if d.Forget {
			phase += "x"
		}
		all = append(all, phase)
	}
	return all
}

// A member that is silent for good expires once it has been silent for five minutes in which most others were heard, whatever these do, and
// however often the hub process stands still.
func TestSilenceAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(100) {
			rng := rand.New(rand.NewPCG(seed, 2))
			names := strings.Fields("a b c d e f g")[:2+rng.IntN(6)]
			h := newHub()
			h.know("", time.Time{}, append(names, "dead")...)
			h.run(time.Minute, append(names, "dead")...)
			counted := time.Duration(0)
			for counted < 6*time.Minute {
				alive := []string{"a"}
				for _, name := range names[1:] {
					if rng.IntN(2) > 0 {
						alive = append(alive, name)
					}
				}
				for range 1 + rng.IntN(12) {
					h.run(10*time.Second, alive...)
					if !h.l.Braked() {
						counted += 10 * time.Second
					}
				}
				if rng.IntN(4) == 0 {
					script.Elapse(30 * time.Minute)
				}
				if time.Since(h.began) > 30*24*time.Hour {
					t.Fatalf("seed %d: the others were never heard for long enough", seed)
				}
			}
			if d := h.last["dead"]; d.Phase != clustersetv1alpha1.MemberExpired {
				t.Errorf("seed %d: %+v, after it was silent for %s, of which %s count", seed, d, time.Since(h.began), counted)
			}
		}
	})
}

// In any sequence of events, no member that sent a heartbeat within 40 s is worse than Ready, and none that sent one within 5 minutes
// expires. No step expires more than half of the members that were alive, if there were two or more.
func TestNobodyAliveIsEverTakenForSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for seed := range uint64(200) {
			rng := rand.New(rand.NewPCG(seed, 1))
			names := strings.Fields("a b c d e f g")[:1+rng.IntN(7)]
			h := newHub()
			h.know("", time.Time{}, names...)
			heard := map[string]time.Time{}
			for range 40 {
				var alive []string
				for _, name := range names {
					if rng.IntN(3) > 0 {
						alive = append(alive, name)
					}
				}
				for range 1 + rng.IntN(20) {
					before := h.last
					began := time.Now()
					h.run(10*time.Second, alive...)
					for _, name := range alive {
						heard[name] = began
					}
					expired, there := 0, 0
					for name, d := range h.last {
						if was := before[name].Phase; was == clustersetv1alpha1.MemberReady || was == clustersetv1alpha1.MemberSuspect {
							there++
							if d.Phase == clustersetv1alpha1.MemberExpired {
								expired++
							}
						}
						silence := time.Since(heard[name])
						if d.Phase == clustersetv1alpha1.MemberSuspect && silence < 40*time.Second ||
							d.Phase == clustersetv1alpha1.MemberExpired && silence < 5*time.Minute || d.Forget {
							t.Fatalf("seed %d: %s is %v after %s of silence", seed, name, d, silence)
						}
					}
					if expired > 1 && 2*expired > there {
						t.Fatalf("seed %d: %d of %d expired at once", seed, expired, there)
					}
				}
			}
		}
	})
}

// A hub whose watch is behind reads the last heartbeat from the API server, and an older one from its cache again and again. A dead member is
// suspected all the same. Rule C22 of docs/spec/control-plane.md.
func TestAnOlderLeaseIsNoHeartbeat(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := New(DefaultThresholds)
	l.Know("a", "", time.Time{}, now)
	for _, beat := range []string{"1", "2", "1", "2", "1"} {
		l.Observe("a", beat, now)
		now = now.Add(10 * time.Second)
		l.Decide(now)
	}
	if phase := l.Decide(now)["a"].Phase; phase != clustersetv1alpha1.MemberSuspect {
		t.Errorf("it is %s after 40 s of silence", phase)
	}
	l.Observe("a", "3", now)
	if phase := l.Decide(now)["a"].Phase; phase != clustersetv1alpha1.MemberReady {
		t.Errorf("it is %s after a heartbeat", phase)
	}
}
