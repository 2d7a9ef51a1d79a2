// Package heap keeps our processes small: what their caches hold, and how much garbage they may hold before it is collected.
//
// GOGC is a ratio: at 100 a heap of 20 MiB grows to 40 before it is collected, which is cheap, and one of 400 MiB to 800, which
// gets a pod evicted. So a small heap gets a ratio, and a large one an amount.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Tune sets the collector of the process. Beside what lives, the heap may hold percent of that in garbage, as with GOGC, but no
// more bytes than room, or half of what lives where that is more: less would have the collector run all the time. Where the
// environment says GOGC that holds instead.
//
// The process also keeps within nine tenths of its container's memory limit, where there is one and GOMEMLIMIT is not set: what
// garbage it may hold must never be what gets it killed.
func Tune(percent int, room uint64) {
	// No limit, or none that can be read, is no error: then there is nothing to keep within.
	_, _ = memlimit.Set(memlimit.WithRatio(0.9))
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	debug.SetGCPercent(percent)
	t := &tuner{percent, room, percent}
	t.afterNextCollection()
}

type tuner struct {
	percent int
	room    uint64
	now     int // what the collector was told last
}

// marker is what nobody refers to. It has a pointer, since those without one can share their memory with what lives.
type marker struct{ _ *int }

// afterNextCollection calls adjust when the next collection has found what lives.
func (t *tuner) afterNextCollection() {
	runtime.AddCleanup(&marker{}, func(t *tuner) {
		t.adjust()
		t.afterNextCollection()
	}, t)
}

func (t *tuner) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() != metrics.KindUint64 {
		return // of a Go that calls it otherwise
	}
	if p := percentOf(live[0].Value.Uint64(), t.percent, t.room); p != t.now {
		t.now = p
		debug.SetGCPercent(p)
	}
}

// percentOf is the GOGC that gives a heap its room.
func percentOf(live uint64, percent int, room uint64) int {
	garbage := max(room, live/2)
	if live == 0 || live*uint64(percent)/100 <= garbage { //nolint:gosec // percent is positive
		return percent
	}
	return int(garbage * 100 / live) //nolint:gosec // it is less than percent
}
