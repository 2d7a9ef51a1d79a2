package store

import (
	"testing"
	"time"
)

// Rule C70 of docs/spec/control-plane.md.
func TestPausesAreThoseOfTheRule(t *testing.T) {
	pauses := backoff()
	for _, least := range []time.Duration{1, 2, 4, 8, 10, 10, 10, 10} {
		if got := pauses.Step(); got < least*time.Second || got > 2*least*time.Second {
			t.Errorf("%s, want %d s and as much again at random", got, least)
		}
	}
}
