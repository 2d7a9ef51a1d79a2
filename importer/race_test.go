//go:build race

package importer

// raced says that the race detector is on, under which everything allocates more and takes longer.
const raced = true
