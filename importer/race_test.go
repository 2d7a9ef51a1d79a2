//go:build race

package importer

// raced is set if the race detector is on, which makes everything allocate more and take longer.
const raced = true
