package main

import "github.com/clusterset/clusterset/internal/heap"

const (
	// gcPercent is the garbage collector's target where GOGC doesn't say otherwise. What a query allocates is garbage when it is
	// answered, while what lives is a few MiB: at Go's own 100 the collector runs ten times a second and takes a tenth of the
	// processor (`make bench BENCH="-only process -profiles DIR"` shows it). 400 gives that back for some tens of MiB.
	gcPercent = 400
	// gcRoom is what bounds these tens: a server that holds the services of 250 clusters mustn't take five times as much.
	gcRoom = 64 << 20
)

// tuneMemory sets the collector for a DNS server.
func tuneMemory() { heap.Tune(gcPercent, gcRoom) }
