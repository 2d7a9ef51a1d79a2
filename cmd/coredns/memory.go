package main

import "github.com/clusterset/clusterset/internal/heap"

const (
	// gcPercent is the garbage collector's target unless GOGC is set. What a query allocates is garbage once it is answered, and
	// the live heap is a few MiB: at Go's default of 100 the collector runs ten times a second and takes a tenth of the
	// processor (`GOGC=100 make bench BENCH="-only udp"` shows it). 400 saves that for some tens of MiB.
	gcPercent = 400
	// gcRoom bounds that memory: a server with the services of 250 clusters must not need five times its live heap.
	gcRoom = 48 << 20
)

// tuneMemory configures the garbage collector for a DNS server.
func tuneMemory() { heap.Tune(gcPercent, gcRoom) }
