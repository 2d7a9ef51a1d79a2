// Package heap limits how much garbage may accumulate in a process before it is collected.
//
// GOGC is a ratio: at 100 a heap of 20 MiB grows to 40 MiB before it is collected, which is cheap, but one of 400 MiB grows to
// 800 MiB, which gets a pod evicted. So garbage is limited by a ratio for a small heap, and by an amount for a large one.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Tune configures the garbage collector of the process. The heap may hold garbage up to percent of its live size, as with GOGC,
// but at most room bytes, or two fifths of the live size if that is more: with less, the collector would run all the time. If the
// environment sets GOGC, that applies instead.
//
// The process also stays within nine tenths of its container's memory limit, if there is one and GOMEMLIMIT is not set: garbage
// must never get it killed.
func Tune(percent int, room uint64) {
	// A missing or unreadable limit is no error: then there is no limit to stay within.
	_, _ = memlimit.Set(memlimit.WithRatio(0.9))
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	debug.SetGCPercent(percent)
	follow(percent, room, percent)
}

// follow adjusts GOGC, which is now as given, after each collection, when the live size is known.
func follow(percent int, room uint64, now int) {
	// The object is unreferenced. It has a pointer field, because objects without pointers can share memory with live ones.
	runtime.AddCleanup(&struct{ _ *int }{}, func(now int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		next := percentOf(live[0].Value.Uint64(), percent, room)
		if next != now {
			debug.SetGCPercent(next)
		}
		follow(percent, room, next)
	}, now)
}

// percentOf returns the GOGC that limits a heap's garbage as Tune documents.
func percentOf(live uint64, percent int, room uint64) int {
	garbage := max(room, live*2/5)
	if live == 0 || live*uint64(percent)/100 <= garbage { //nolint:gosec // percent is positive
		return percent
	}
	return int(garbage * 100 / live) //nolint:gosec // it is less than percent
}
