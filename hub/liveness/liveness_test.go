package liveness

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// script runs a Liveness on its own clock. The running members send a heartbeat every 10 s, and there is a decision every 5 s.
type script struct {
	t     *testing.T
	now   time.Time
	l     *Liveness
	beats map[string]int
	last  map[string]Decision
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newScript(t *testing.T) *script {
	return &script{t: t, now: epoch, l: New(DefaultThresholds), beats: map[string]int{}}
}

// know adds members with the status that an earlier process wrote.
func (s *script) know(phase clustersetv1alpha1.MemberClusterPhase, heard time.Time, names ...string) {
	for _, name := range names {
		s.l.Know(name, phase, heard, s.now)
	}
}

// run advances the clock while the named members send heartbeats. The last Leases of the others are observed again and again, as after a
// relist.
func (s *script) run(d time.Duration, beating string) {
	s.t.Helper()
	alive := strings.Fields(beating)
	for end := s.now.Add(d); s.now.Before(end); s.now = s.now.Add(5 * time.Second) {
		if s.now.Sub(epoch)%(10*time.Second) == 0 {
			for _, name := range alive {
				s.beats[name]++
			}
		}
		for name, beat := range s.beats {
			s.l.Observe(name, fmt.Sprint(beat), s.now)
		}
		s.last = s.l.Decide(s.now)
	}
}

// want compares the last decisions with a text such as "a=Ready b=Suspect*". A star means that expiry is paused, an x that the records are
// to be forgotten.
func (s *script) want(text string) {
	s.t.Helper()
	var got []string
	for _, name := range slices.Sorted(maps.Keys(s.last)) {
		d := s.last[name]
		entry := name + "=" + string(d.Phase)
		if d.Paused {
			entry += "*"
		}
		if d.Forget {
			entry += "x"
		}
		got = append(got, entry)
	}
	if g := strings.Join(got, " "); g != text {
		s.t.Errorf("after %s: %q, want %q", s.now.Sub(epoch), g, text)
	}
}

// Rule C22 of docs/spec/control-plane.md.
func TestSilenceTakesAMemberThroughTheThreePhases(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b", "c")
	s.run(time.Minute, "a b c")
	s.want("a=Ready b=Ready c=Ready")
	s.run(30*time.Second, "a b")
	s.want("a=Ready b=Ready c=Ready")
	s.run(20*time.Second, "a b")
	s.want("a=Ready b=Ready c=Suspect")
	s.run(4*time.Minute-5*time.Second, "a b")
	s.want("a=Ready b=Ready c=Suspect")
	s.run(30*time.Second, "a b")
	s.want("a=Ready b=Ready c=Expired")
	s.run(5*time.Second, "a b c")
	s.run(10*time.Second, "a b c")
	s.want("a=Ready b=Ready c=Ready")
}

// Rule C21 of docs/spec/control-plane.md.
func TestMemberThatNeverSpokeIsNotSilent(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b")
	s.run(time.Hour, "a")
	s.want("a=Ready b=")
}

func TestLoneMemberExpires(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a")
	s.run(time.Minute, "a")
	s.run(6*time.Minute, "")
	s.want("a=Expired")
}

// Rule C23 of docs/spec/control-plane.md.
func TestBrakeKeepsTheMajorityFromExpiringTogether(t *testing.T) {
	for _, c := range []struct {
		name, members, beating, want string
	}{
		{"all of two, so that nobody is heard", "a b", "", "a=Ready* b=Ready*"},
		{"two of three", "a b c", "a", "a=Ready b=Suspect* c=Suspect*"},
		{"half is not more than half", "a b c d", "a b", "a=Ready b=Ready c=Expired d=Expired"},
		{"one of two is only one", "a b", "a", "a=Ready b=Expired"},
		{"three of five", "a b c d e", "a b", "a=Ready b=Ready c=Suspect* d=Suspect* e=Suspect*"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.know("", time.Time{}, strings.Fields(c.members)...)
			s.run(time.Minute, c.members)
			s.run(time.Hour, c.beating)
			s.want(c.want)
		})
	}
}

func TestLongExpiredMembersDoNotCountForTheBrake(t *testing.T) {
	s := newScript(t)
	s.know(clustersetv1alpha1.MemberExpired, epoch.Add(-time.Hour), "x", "y", "z")
	s.know("", time.Time{}, "a", "b", "c")
	s.run(time.Minute, "a b c")
	s.run(10*time.Minute, "a")
	s.want("a=Ready b=Suspect* c=Suspect* x=Expired y=Expired z=Expired")
}

func TestHubThatHearsNobodySuspectsNobody(t *testing.T) {
	for _, outage := range []time.Duration{30 * time.Second, 40 * time.Second, 50 * time.Second, 10 * time.Minute, 12 * time.Hour} {
		s := newScript(t)
		s.know("", time.Time{}, "a", "b", "c", "d")
		s.run(time.Minute, "a b c d")
		s.run(outage, "")
		if outage >= 50*time.Second {
			s.want("a=Ready* b=Ready* c=Ready* d=Ready*")
		}
		// They return one after another, and at no time does one rank behind another.
		for _, back := range []string{"a", "a b", "a b c"} {
			s.run(10*time.Second, back)
			s.want("a=Ready b=Ready c=Ready d=Ready")
		}
		// d died meanwhile.
		s.run(time.Minute, "a b c")
		s.want("a=Ready b=Ready c=Ready d=Suspect")
		s.run(5*time.Minute, "a b c")
		s.want("a=Ready b=Ready c=Ready d=Expired")
	}
}

func TestSuspectMemberIsNotExpiredByAHubThatHearsNobody(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b", "c")
	s.run(time.Minute, "a b c")
	s.run(time.Minute, "a b")
	s.run(time.Hour, "")
	s.want("a=Ready* b=Ready* c=Suspect*")
	s.run(20*time.Second, "a b c")
	s.want("a=Ready b=Ready c=Ready")
}

func TestRareHeartbeatsAreNoSilenceOfTheHub(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b")
	s.run(time.Minute, "a b")
	for range 40 { // every 30 s
		s.run(20*time.Second, "")
		s.run(10*time.Second, "a")
	}
	s.want("a=Ready b=Expired")
}

func TestReleasedBrakeGivesTheRestTheirTime(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b", "c", "d")
	s.run(time.Minute, "a b c d")
	s.run(time.Hour, "a")
	s.want("a=Ready b=Suspect* c=Suspect* d=Suspect*")
	// The connection is back; c and d are slower.
	s.run(20*time.Second, "a b")
	s.want("a=Ready b=Ready c=Suspect d=Suspect")
	s.run(2*time.Minute, "a b c")
	s.want("a=Ready b=Ready c=Ready d=Suspect")
	// d is really gone.
	s.run(5*time.Minute, "a b c")
	s.want("a=Ready b=Ready c=Ready d=Expired")
}

// Two of three are silent whenever the flapping one is, and then nothing expires. That time doesn't count as the dead one's silence, but all
// other time does. Rule C28 of docs/spec/control-plane.md.
func TestDeadMemberExpiresWhileAnotherFlaps(t *testing.T) {
	for _, c := range []struct {
		name          string
		silent, heard time.Duration // of the flapping member, in turn
		until         time.Duration // when the dead one is expired
	}{
		{"as briefly as it can be noticed", 50 * time.Second, 10 * time.Second, 8 * time.Minute},
		{"for longer than a cluster takes to expire", 10 * time.Minute, 10 * time.Second, 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			s.know("", time.Time{}, "a", "b", "c")
			s.run(time.Minute, "a b c")
			for end := s.now.Add(c.until); s.now.Before(end); {
				s.run(c.silent, "a")
				s.run(c.heard, "a b")
			}
			s.want("a=Ready b=Ready c=Expired")
		})
	}
}

// A member that is silent for good expires once it has been silent for five minutes in which most others were heard, whatever these do, and
// however often the hub process stands still.
func TestSilenceAddsUp(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 2))
		names := strings.Fields("a b c d e f g")[:2+rng.IntN(6)]
		s := newScript(t)
		s.know("", time.Time{}, append(names, "dead")...)
		s.run(time.Minute, strings.Join(append(names, "dead"), " "))
		counted := time.Duration(0)
		for counted < 6*time.Minute {
			alive := []string{"a"}
			for _, name := range names[1:] {
				if rng.IntN(2) > 0 {
					alive = append(alive, name)
				}
			}
			for range 1 + rng.IntN(12) {
				s.run(10*time.Second, strings.Join(alive, " "))
				if !s.l.Braked() {
					counted += 10 * time.Second
				}
			}
			if rng.IntN(4) == 0 {
				s.now = s.now.Add(30 * time.Minute)
			}
			if s.now.Sub(epoch) > 30*24*time.Hour {
				t.Fatalf("seed %d: the others were never heard for long enough", seed)
			}
		}
		if d := s.last["dead"]; d.Phase != clustersetv1alpha1.MemberExpired {
			t.Errorf("seed %d: %+v, after it was silent for %s, of which %s count", seed, d, s.now.Sub(epoch), counted)
		}
	}
}

func TestRestartOfTheHubForgetsNothingAndExpiresNobody(t *testing.T) {
	s := newScript(t)
	yesterday := epoch.Add(-20 * time.Hour) // the hub has been down since then
	s.know(clustersetv1alpha1.MemberReady, yesterday, "a", "b", "c")
	s.know(clustersetv1alpha1.MemberSuspect, yesterday, "d")
	s.know(clustersetv1alpha1.MemberExpired, yesterday, "e")
	// All their Leases are there, however old they are. Seeing them is no sign of life.
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		s.beats[name] = 1
	}
	s.run(30*time.Second, "")
	s.want("a=Ready b=Ready c=Ready d=Suspect e=Expired")
	s.run(20*time.Second, "a b c d e")
	s.want("a=Ready b=Ready c=Ready d=Ready e=Ready")
}

func TestRestartedHubStartsCountingAnew(t *testing.T) {
	s := newScript(t)
	s.know(clustersetv1alpha1.MemberReady, epoch.Add(-time.Hour), "a", "b", "c")
	s.run(4*time.Minute+55*time.Second, "a b")
	s.want("a=Ready b=Ready c=Suspect")
	s.run(10*time.Second, "a b")
	s.want("a=Ready b=Ready c=Expired")
}

func TestRecordsAreForgottenAfterADay(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b", "c")
	s.run(time.Minute, "a b c")
	s.run(23*time.Hour+59*time.Minute, "a b")
	s.want("a=Ready b=Ready c=Expired")
	s.run(2*time.Minute, "a b")
	s.want("a=Ready b=Ready c=Expiredx")
	s.run(10*time.Second, "a b c")
	s.want("a=Ready b=Ready c=Ready")
}

func TestRestartedHubListensBeforeItForgets(t *testing.T) {
	s := newScript(t)
	s.know(clustersetv1alpha1.MemberExpired, epoch.Add(-48*time.Hour), "a")
	s.know(clustersetv1alpha1.MemberReady, epoch, "b")
	s.run(4*time.Minute, "b")
	s.want("a=Expired b=Ready")
	s.run(2*time.Minute, "b")
	s.want("a=Expiredx b=Ready")
}

func TestNothingIsForgottenUnderTheBrake(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b", "c", "d")
	s.run(time.Minute, "a b c d")
	s.run(10*time.Minute, "b c d") // a expires
	s.run(48*time.Hour, "")
	s.want("a=Expired b=Ready* c=Ready* d=Ready*")
}

// Rule C24 of docs/spec/control-plane.md.
func TestPausedHubDoesNotCountItsPause(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a")
	s.run(time.Minute, "a")
	s.now = s.now.Add(3 * time.Hour) // SIGSTOP, or the machine was asleep; the watch hasn't caught up yet
	s.run(10*time.Second, "")
	s.want("a=Ready")
	s.run(time.Minute, "")
	s.want("a=Suspect")
}

func TestMemberThatLeavesIsDropped(t *testing.T) {
	s := newScript(t)
	s.know("", time.Time{}, "a", "b", "c")
	s.run(time.Minute, "a b c")
	s.run(2*time.Minute, "a")
	s.want("a=Ready b=Suspect* c=Suspect*")
	s.l.Drop("c")
	s.run(5*time.Second, "a")
	s.want("a=Ready b=Suspect")
}

// In any sequence of events, no member that sent a heartbeat within 40 s is worse than Ready, and none that sent one within 5 minutes
// expires. No step expires more than half of the members that were alive, if there were two or more.
func TestNobodyAliveIsEverTakenForSilent(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		names := strings.Fields("a b c d e f g")[:1+rng.IntN(7)]
		s := newScript(t)
		s.know("", time.Time{}, names...)
		heard := map[string]time.Time{}
		for range 40 {
			var alive []string
			for _, name := range names {
				if rng.IntN(3) > 0 {
					alive = append(alive, name)
				}
			}
			for range 1 + rng.IntN(20) {
				before := s.last
				began := s.now
				s.run(10*time.Second, strings.Join(alive, " "))
				for _, name := range alive {
					heard[name] = began
				}
				expired, there := 0, 0
				for name, d := range s.last {
					if was := before[name].Phase; was == clustersetv1alpha1.MemberReady || was == clustersetv1alpha1.MemberSuspect {
						there++
						if d.Phase == clustersetv1alpha1.MemberExpired {
							expired++
						}
					}
					silence := s.now.Sub(heard[name])
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
}

// Setting a clock changes what time it is, but not how much time has passed. A Go time contains both, unless its monotonic reading is
// stripped. So every time from which a member's silence is measured must have that reading.
func TestStepsOfTheClockChangeNothing(t *testing.T) {
	now := time.Now()
	l := New(DefaultThresholds)
	l.Know("a", clustersetv1alpha1.MemberReady, now.UTC().Truncate(time.Second), now) // as read from a status
	l.Know("b", clustersetv1alpha1.MemberSuspect, time.Time{}, now)
	for i, beat := range []string{"1", "2", "3"} {
		now = now.Add(time.Duration(i+1) * 25 * time.Second) // with gaps, which don't count as silence
		l.Decide(now)
		l.Observe("a", beat, now)
		l.Decide(now.Add(time.Second))
	}
	for what, at := range map[string]time.Time{
		"the last decision": l.last, "the last heartbeat of all": l.heard, "a's silence": l.members["a"].silentSince, "b's silence": l.members["b"].silentSince,
	} {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s is counted from %s, which a step of the clock makes wrong", what, at)
		}
	}
}
