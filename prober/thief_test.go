package prober

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What a cluster does with its beacons costs others few writes: one of the object of verdicts for each time that it stops and begins to answer, which
// takes seconds to be seen. Endpoints follow a verdict, and that of a flapping cluster stays what it is ever longer (D5, D50). Rules D43 and D51
// of docs/spec/data-path.md.
func TestFlappingBeaconsCostFewWrites(t *testing.T) {
	const stamps, flaps = 20, 360 // an hour's
	for what, c := range map[string]struct {
		flap              func(w *world, i int)
		writes, decisions int // at most
	}{
		"other addresses in each heartbeat": {func(w *world, i int) { w.beacons("b", fmt.Sprintf("10.1.1.%d:9471", i%200+1)) }, stamps, 0},
		"addresses that nobody dials": {func(w *world, i int) {
			w.beacons("b", "10.1.0.1:9471", fmt.Sprintf("10.9.1.%d:9471", i%200+1))
		}, stamps, 0},
		"no answer every other time": {func(w *world, i int) {
			w.set(func() { w.cut["10.1.0.1:9471"] = i%2 == 0 })
		}, flaps + stamps, 12},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "b", "c", "d")
				p, stop := w.start()
				defer stop()
				decisions := 0
				go func() {
					for {
						select {
						case <-t.Context().Done():
							return
						case <-p.Changed():
							w.set(func() { decisions++ })
						}
					}
				}()
				elapse(time.Minute)
				w.set(func() { w.writes, decisions = 0, 0 })
				for i := range flaps {
					c.flap(w, i)
					elapse(10 * time.Second)
				}
				w.set(func() {
					t.Logf("%d writes and %d decisions in an hour", w.writes, decisions)
					if w.writes > c.writes || decisions > c.decisions {
						t.Errorf("%d writes and %d decisions in an hour, want at most %d and %d", w.writes, decisions, c.writes, c.decisions)
					}
				})
			})
		})
	}
}
