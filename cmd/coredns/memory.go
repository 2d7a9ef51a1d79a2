package main

import (
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent is the garbage collector's target where GOGC doesn't say otherwise. What a query allocates is garbage when it is
// answered, while what lives is a few MiB: at Go's own 100 the collector runs ten times a second and takes a tenth of the
// processor (`make bench BENCH="-only process -profiles DIR"` shows it). 400 gives that back for some tens of MiB.
const gcPercent = 400

// tuneMemory sets the collector for a DNS server, and keeps it within nine tenths of the container's memory limit, where
// there is one and GOMEMLIMIT is not set: the higher target must never be what gets the process killed.
func tuneMemory() {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(gcPercent)
	}
	// No limit, or none that can be read, is no error: then there is nothing to keep within.
	_, _ = memlimit.Set(memlimit.WithRatio(0.9))
}
