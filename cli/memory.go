package cli

import "github.com/clusterset/clusterset/internal/heap"

// gcRoom is the least garbage that an agent may hold before a collection. Above that the limit is two fifths of the live heap: an
// agent of 250 clusters keeps some hundreds of MiB, and Go's default of 100 % would be most of its pod's limit.
const gcRoom = 64 << 20

// tuneMemory configures the garbage collector for the agent and the hub process.
func tuneMemory() { heap.Tune(100, gcRoom) }
