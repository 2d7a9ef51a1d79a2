package prober

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/verdict"
)

func TestVerdictsAreStoredAndPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c", "d")
		p, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		w.are("b True Answers, c True Answers, d True Answers")
		if got := w.stored().Clusters[0]; !got.Reached || got.RoundTripMicroseconds != 5000 || !slices.Equal(got.Beacons, []string{"10.1.0.1:9471"}) {
			t.Errorf("%+v", got)
		}
		w.set(func() { w.cut["10.1.0.1:9471"] = true })
		began := time.Now()
		if e := <-p.Changed(); e.Object.GetName() != "b" || !p.Unreachable("b") || p.Unreachable("c") {
			t.Errorf("%s changed", e.Object.GetName())
		}
		if took := time.Since(began); took > 5500*time.Millisecond {
			t.Errorf("unreachable after %s", took)
		}
		synctest.Wait()
		w.are("b False NoAnswer, c True Answers, d True Answers")
		if said := reportOf(p); !slices.Equal(said.Unreachable, []string{"b"}) || len(said.Unmeasured) > 0 {
			t.Errorf("%+v", said)
		}
		w.set(func() { w.cut["10.1.0.1:9471"] = false })
		if e := <-p.Changed(); e.Object.GetName() != "b" || p.Unreachable("b") {
			t.Errorf("%s changed", e.Object.GetName())
		}
		w.set(func() { w.at["10.2.0.1:9471"] = "x" })
		if e := <-p.Changed(); e.Object.GetName() != "c" {
			t.Errorf("%s changed", e.Object.GetName())
		}
		synctest.Wait()
		w.are("b True Answers, c False WrongCluster, d True Answers")
	})
}

// Rule D51 of docs/spec/data-path.md: nothing is written while nothing changes but a stamp every three minutes.
func TestQuietSetWritesStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		_, stop := w.start()
		defer stop()
		elapse(time.Minute)
		w.set(func() { w.writes = 0 })
		stamp := w.stored().Stamp
		elapse(time.Hour)
		w.set(func() {
			if w.writes != 20 {
				t.Errorf("%d writes in an hour", w.writes)
			}
		})
		if w.stored().Stamp.Equal(&stamp) {
			t.Error("the stamp is the same")
		}
	})
}

// Rule D43: agents get other addresses; the report has them, whether or not a hub process runs, and no verdict changes.
func TestRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		p, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		since := w.stored().Clusters[0].Since
		for i := range 20 {
			w.beacons("b", fmt.Sprintf("10.1.1.%d:9471", i), fmt.Sprintf("10.1.2.%d:9471", i))
			elapse(40 * time.Second)
			w.are("b True Answers, c True Answers")
		}
		if p.Unreachable("b") || !w.stored().Clusters[0].Since.Equal(&since) {
			t.Error("a verdict has changed meanwhile")
		}
	})
}

// Rule D43: an agent that has been told to stop says so, and the next one's address is known before the first doesn't answer any more. One
// that says so and stays costs the hub no more than one that doesn't answer.
func TestRolloutThatIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		_, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		since := w.stored().Clusters[0].Since
		w.set(func() { w.leaving["10.1.0.1:9471"] = true })
		elapse(2 * time.Second)
		w.beacons("b", "10.1.0.2:9471")
		w.set(func() { w.at["10.1.0.1:9471"] = "b" }) // still
		elapse(5 * time.Second)
		w.set(func() {
			delete(w.at, "10.1.0.1:9471")
			w.hubAway = true
		})
		elapse(time.Minute)
		w.are("b True Answers, c True Answers")
		if !w.stored().Clusters[0].Since.Equal(&since) {
			t.Error("a verdict has changed meanwhile")
		}
		w.set(func() {
			w.hubAway, w.reads = false, 0
			w.leaving["10.1.0.2:9471"] = true
		})
		elapse(time.Hour)
		w.are("b True Answers, c True Answers")
		w.set(func() {
			if w.reads > 80 { // a minute apart but for the first, and c's every ten minutes
				t.Errorf("%d reads in an hour", w.reads)
			}
		})
	})
}

// Rule D42: a cluster that was measured and turns its beacons off isn't measured any more, and counts as reachable; one whose report doesn't
// name them for a while, as its agents aren't ready, is still dialled where they were.
func TestBeaconsThatAreTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c", "d")
		p, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		w.beacons("b")
		var none clustersetv1alpha1.MemberReportSpec
		(&Announcer{}).Report(t.Context(), &none)
		w.state("b", none)
		w.beacons("c")
		w.state("c", clustersetv1alpha1.MemberReportSpec{})
		elapse(time.Minute)
		w.are("b Unknown NoBeacon, c False NoAnswer, d True Answers")
		if p.Unreachable("b") {
			t.Error("it counts as unreachable")
		}
		w.beacons("b", "10.1.0.2:9471")
		w.beacons("c", "10.2.0.2:9471")
		elapse(10 * time.Minute)
		w.are("b True Answers, c True Answers, d True Answers")
	})
}

// Rule D51, and that beacons are known while the hub is away.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c", "d")
		_, stop := w.start()
		elapse(10 * time.Second)
		w.set(func() { w.cut["10.1.0.1:9471"] = true })
		elapse(10 * time.Second)
		stop()
		w.are("b False NoAnswer, c True Answers, d True Answers")
		since := w.stored().Clusters[0].Since
		w.set(func() { w.hubAway = true })
		elapse(5 * time.Minute)
		p, stop := w.start()
		<-p.Loaded()
		if !p.Unreachable("b") || p.Unreachable("c") {
			t.Error("it begins with other verdicts")
		}
		elapse(10 * time.Second)
		w.are("b False NoAnswer, c True Answers, d True Answers")
		if now := w.stored().Clusters[0]; !now.Since.Equal(&since) {
			t.Errorf("%+v, before since %s", now, since)
		}
		w.set(func() { w.cut["10.1.0.1:9471"] = false })
		elapse(20 * time.Second)
		w.are("b True Answers, c True Answers, d True Answers")
		w.set(func() { w.cut["10.1.0.1:9471"] = true })
		elapse(10 * time.Second)
		stop()

		elapse(time.Hour) // nobody counts its verdicts any more
		p, stop = w.start()
		defer stop()
		<-p.Loaded()
		if p.Unreachable("b") {
			t.Error("an old verdict counts")
		}
		elapse(time.Minute)
		w.are("b False NoAnswer, c True Answers, d True Answers") // it was reached once
	})
}

// A rollout replaces an agent soon after it started, or a machine kills it. Rule D51.
func TestRestartedAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		_, stop := w.start()
		elapse(10 * time.Second)
		stop()
		before := w.stored().Clusters
		w.set(func() { w.hubAway = true })
		for _, ran := range []time.Duration{time.Millisecond, 10 * time.Second, time.Millisecond, time.Millisecond, 10 * time.Second} {
			_, stop := w.start()
			elapse(ran)
			stop()
			if now := w.stored().Clusters; !slices.EqualFunc(before, now, func(a, b clustersetv1alpha1.ClusterReachability) bool {
				return a.Name == b.Name && a.Reachable == b.Reachable && a.Reason == b.Reason && a.Since.Equal(&b.Since) && slices.Equal(a.Beacons, b.Beacons)
			}) {
				t.Errorf("after an agent that ran for %s: %+v, want %+v", ran, now, before)
			}
		}
	})
}

// Rule D48.
func TestSetThatBlocksThePortWorksAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		w.cut["10.1.0.1:9471"], w.cut["10.2.0.1:9471"] = true, true
		p, stop := w.start()
		defer stop()
		elapse(time.Hour)
		w.are("b Unknown NeverReached, c Unknown NeverReached")
		if p.Unreachable("b") || p.Unreachable("c") || !slices.Equal(reportOf(p).Unmeasured, []string{"b", "c"}) {
			t.Errorf("%+v", reportOf(p))
		}
	})
}

// Rule D44: an address of the hub that becomes known only later is no longer dialled soon after, whether or not a report is to be read.
func TestAddressThatIsTheHubsAfterAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c")
		_, stop := w.start()
		defer stop()
		elapse(time.Minute)
		w.are("b True Answers, c True Answers")
		w.set(func() { w.avoid = []netip.Addr{netip.MustParseAddr("10.1.0.1")} })
		elapse(10 * time.Second)
		w.are("b Unknown NotAllowed, c True Answers")
	})
}

func TestClustersThatLeaveOrAreNotSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "b", "c", "d")
		_, stop := w.start()
		defer stop()
		elapse(10 * time.Second)
		for name, f := range map[string]func(*clustersetv1alpha1.MemberCluster) error{
			"b": func(m *clustersetv1alpha1.MemberCluster) error { return w.here.Delete(t.Context(), m) },
			"c": func(m *clustersetv1alpha1.MemberCluster) error {
				m.Spec.Communities = []string{"others"}
				return w.here.Update(t.Context(), m)
			},
		} {
			m := &clustersetv1alpha1.MemberCluster{}
			if err := errors.Join(w.here.Get(t.Context(), client.ObjectKey{Name: name}, m), f(m)); err != nil {
				t.Fatal(err)
			}
		}
		elapse(5 * time.Second)
		w.are("d True Answers")
	})
}

// The rules for large sets, as a whole: the 14 s, and dials.
func TestLargeSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		for i := range 250 {
			all = append(all, fmt.Sprintf("c%03d", i))
		}
		w := newWorld(t, all...)
		p, stop := w.start()
		defer stop()
		elapse(time.Minute)
		w.set(func() { w.dials, w.most = 0, 0 })
		elapse(time.Minute)
		w.set(func() {
			t.Logf("%d dials in a minute, %d open at most", w.dials, w.most)
			if w.dials > 1830 || w.most > 30 {
				t.Errorf("%d dials in a minute, %d open", w.dials, w.most)
			}
			w.cut["10.18.0.1:9471"] = true
		})
		began := time.Now()
		<-p.Changed()
		if took := time.Since(began); took > 14*time.Second || !p.Unreachable("c017") {
			t.Errorf("unreachable after %s", took)
		}
	})
}

// Rule D52: at most 250 names of each, and a word if there are more.
func TestReportHasABound(t *testing.T) {
	p := New(Options{})
	for _, n := range []int{1, 250, 251} {
		all := map[string]verdict.Verdict{"here": {Reachable: verdict.True}}
		for i := range n {
			all[fmt.Sprint("a", i)], all[fmt.Sprint("b", i)] = verdict.Verdict{Reachable: verdict.False}, verdict.Verdict{Reachable: verdict.Unknown}
		}
		p.verdicts.Store(&all)
		if said := reportOf(p); len(said.Unreachable) != min(n, 250) || len(said.Unmeasured) != min(n, 250) || said.Truncated != (n > 250) {
			t.Errorf("%d: %+v", n, said)
		}
	}
}

func reportOf(p *Prober) (said clustersetv1alpha1.MemberReportSpec) {
	p.Report(&said)
	return said
}
