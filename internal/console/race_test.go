//go:build race

package console

// raced is set if the race detector is on, which allocates memory of its own.
const raced = true
