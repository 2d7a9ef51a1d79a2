package main

import "github.com/clusterset/clusterset/internal/heap"

// gcRoom is how much garbage an agent may hold at least. Beyond that it is two fifths of what lives: an agent of 250 clusters keeps some
// hundreds of MiB, and Go's own 100 % on top would be the larger part of its pod's limit.
const gcRoom = 64 << 20

// tuneMemory sets the collector for the agent and the hub process.
func tuneMemory() { heap.Tune(100, gcRoom) }
