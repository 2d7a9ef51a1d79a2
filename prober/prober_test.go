package prober

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/internal/verdict"
	"github.com/clusterset/clusterset/test/script"
)

// TestScripts runs the scripts of testdata/verdicts.txtar: what cluster a finds of b, c and d, whose beacons are 10.1.0.1:9471, 10.2.0.1:9471 and
// 10.3.0.1:9471, and says. Rules D42, D43, D44, D45, D48 and D51 of docs/spec/data-path.md. A line is a command:
//
//	start, stop                      the agent of a begins, or ends
//	cut, mend ADDRESS...             they don't answer; they do again
//	answers CLUSTER|- ADDRESS        this cluster, or nobody, answers there
//	leaves ADDRESS                   its agent has been told to stop, and says so
//	beacons b ADDRESS...             b's agents answer here only, and its report says so
//	unsaid b                         b's report names no beacons
//	hub away|back
//	avoid ADDRESS                    it turns out to be the hub's
//	gone, apart b                    its MemberCluster here is gone; it shares no community
//	are 'b True Answers'             the stored verdicts
//	measured b 5000 ADDRESS          round trip and beacon
//	verdict b [same]                 it is the same, and since then, as at the last "verdict"
//	changes b 10s                    the next change that is passed on is b's, and comes within this time
//	unreachable [b]                  those that rank as unreachable
//	reports TEXT                     what the report has
//	writes, reads [20 20]            so many since the last time, of the stored verdicts and of the hub
//	stamped 3m                       the stored verdicts are no older
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/verdicts.txtar", func(t *testing.T) map[string]script.Command {
		w, before := newWorld(t, "b", "c", "d"), map[string]string{}
		var p *Prober
		var stop func()
		each := func(do func(string)) script.Command {
			return func(args ...string) error {
				w.set(func() {
					for _, a := range args {
						do(a)
					}
				})
				return nil
			}
		}
		equal := func(is, want string) error {
			if is != want {
				return fmt.Errorf("it is %s", is)
			}
			return nil
		}
		counted := func(n *int) script.Command {
			return func(between ...string) (err error) {
				w.set(func() {
					var least, most int
					if len(between) > 0 {
						_, err = fmt.Sscan(strings.Join(between, " "), &least, &most)
					} else {
						most = *n
					}
					if err == nil && (*n < least || *n > most) {
						err = fmt.Errorf("%d times", *n)
					}
					*n = 0
				})
				return err
			}
		}
		member := func(do func(*clustersetv1alpha1.MemberCluster) error) script.Command {
			return script.One(func(name string) error {
				m := &clustersetv1alpha1.MemberCluster{}
				return errors.Join(w.here.Get(t.Context(), client.ObjectKey{Name: name}, m), do(m))
			})
		}
		stored := func(name string) (c clustersetv1alpha1.ClusterReachability) {
			all := w.stored().Clusters
			if i := slices.IndexFunc(all, func(c clustersetv1alpha1.ClusterReachability) bool { return c.Name == name }); i >= 0 {
				c = all[i]
			}
			return c
		}
		return map[string]script.Command{
			"start": script.None(func() {
				p, stop = w.start()
				t.Cleanup(stop)
				synctest.Wait()
			}),
			"stop":   script.None(func() { stop() }),
			"cut":    each(func(a string) { w.cut[a] = true }),
			"mend":   each(func(a string) { w.cut[a] = false }),
			"leaves": each(func(a string) { w.leaving[a] = true }),
			"avoid":  each(func(a string) { w.avoid = append(w.avoid, netip.MustParseAddr(a)) }),
			"hub":    each(func(how string) { w.hubAway = how == "away" }),
			"answers": func(args ...string) error {
				w.set(func() {
					if w.at[args[1]] = args[0]; args[0] == "-" {
						delete(w.at, args[1])
					}
				})
				return nil
			},
			"beacons": func(args ...string) error { w.beacons(args[0], args[1:]...); return nil },
			"unsaid":  script.One(func(name string) error { w.state(name, clustersetv1alpha1.MemberReportSpec{}); return nil }),
			"gone":    member(func(m *clustersetv1alpha1.MemberCluster) error { return w.here.Delete(t.Context(), m) }),
			"apart": member(func(m *clustersetv1alpha1.MemberCluster) error {
				m.Spec.Communities = []string{"others"}
				return w.here.Update(t.Context(), m)
			}),
			"are": script.One(func(want string) error { return equal(w.verdicts(), want) }),
			"measured": func(want ...string) error {
				c := stored(want[0])
				return equal(fmt.Sprint(c.Reached, " ", c.RoundTripMicroseconds, " ", strings.Join(c.Beacons, " ")), "true "+strings.Join(want[1:], " "))
			},
			"verdict": func(args ...string) error {
				c, was := stored(args[0]), before[args[0]]
				before[args[0]] = fmt.Sprint(c.Name, " ", c.Reachable, " ", c.Reason, " since ", c.Since)
				if len(args) == 1 {
					return nil
				}
				return equal(before[args[0]], was)
			},
			"changes": func(args ...string) error {
				within, err := time.ParseDuration(args[1])
				select {
				case e := <-p.Changed():
					synctest.Wait()
					return equal(e.Object.GetName(), args[0])
				case <-time.After(within):
					return fmt.Errorf("nothing changes: %w", err)
				}
			},
			"unreachable": func(want ...string) error {
				var got []string
				for _, name := range []string{"b", "c", "d"} {
					if p.Unreachable(name) {
						got = append(got, name)
					}
				}
				return equal(strings.Join(got, " "), strings.Join(want, " "))
			},
			"reports": script.One(func(want string) error {
				said := reportOf(p)
				return equal(fmt.Sprintf("unreachable %v, unmeasured %v", said.Unreachable, said.Unmeasured), want)
			}),
			"writes": counted(&w.writes),
			"reads":  counted(&w.reads),
			"stamped": script.For(func(most time.Duration, _ ...string) error {
				if age := time.Since(w.stored().Stamp.Time); age > most {
					return fmt.Errorf("%s ago", age)
				}
				return nil
			}),
		}
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
