package store

import (
	"testing"
	"time"
)

// The lists of both kinds, and what is stored of the other, share the room. A list that is begun again doesn't count twice.
func TestListsShareTheRoom(t *testing.T) {
	q := newQuota(100, "own")
	for range 2 {
		q.begin(services)
		q.begin(endpoints)
		for i, c := range []struct {
			kind kind
			of   string
			size int
			fits bool
		}{
			{services, "b", 60, true}, {endpoints, "b", 50, false}, {endpoints, "b", 40, true}, {services, "b", 1, false},
			{services, "c", 100, true}, {endpoints, "own", 1000, true},
		} {
			if got := q.list(c.kind, c.of, c.size); got != c.fits {
				t.Errorf("%d: %v", i, got)
			}
		}
	}
	q.end(services)
	if q.change(services, "b", 61, 60) || !q.change(services, "b", 30, 60) || !q.change(services, "b", 30, 0) || q.change(services, "b", 1, 0) {
		t.Error("a list of the other kind is under way")
	}
	q.begin(endpoints)
	q.end(endpoints)
	if !q.change(services, "b", 40, 0) || q.quarterFree("b") {
		t.Error("the list brought nothing")
	}
}

// Rule C70 of docs/spec/control-plane.md.
func TestPausesAreThoseOfTheRule(t *testing.T) {
	pauses := backoff()
	for _, least := range []time.Duration{1, 2, 4, 8, 10, 10, 10, 10} {
		if got := pauses.Step(); got < least*time.Second || got > 2*least*time.Second {
			t.Errorf("%s, want %d s and as much again at random", got, least)
		}
	}
}
