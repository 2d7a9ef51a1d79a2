package prober

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What a cluster does with its beacons costs others few writes of the object of verdicts: one for each verdict that changes, and one a minute
// while only reasons do. Endpoints follow a verdict, and that of a flapping cluster stays what it is ever longer (D5, D50). Rules D43 and D51
// of docs/spec/data-path.md.
func TestFlappingBeaconsCostFewWrites(t *testing.T) {
	const stamps, minutes, flaps = 20, 60, 360 // an hour's
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
		}, minutes + stamps + 12, 12},
		"no beacons in between": {func(w *world, i int) {
			switch i % 4 {
			case 0:
				w.set(func() { w.cut["10.1.0.1:9471"] = true })
			case 1:
				w.beacons("b")
			case 2:
				w.beacons("b", "10.1.0.1:9471")
				w.set(func() { w.cut["10.1.0.1:9471"] = false })
			}
		}, minutes + stamps + 12, 12},
		"two addresses that fail in different ways": {func(w *world, i int) {
			if i == 0 {
				w.beacons("b", "10.1.0.1:9471", "10.1.0.2:9471")
				w.set(func() { w.at["10.1.0.1:9471"], w.cut["10.1.0.2:9471"] = "c", true })
			}
		}, minutes + stamps + 1, 1},
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
