package damping_test

import (
	"testing"
	"time"

	"github.com/clusterset/clusterset/internal/damping"
)

// Rule D5 of docs/spec/data-path.md.
func TestDamper(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var d damping.Damper
	is := func(down bool, want time.Duration) {
		t.Helper()
		d.Note(down, now)
		if got := d.Left(now); got != want {
			t.Errorf("down %t: has to wait %s, want %s", down, got, want)
		}
	}
	is(false, 0) // as it was found at the start
	is(true, 0)
	is(true, 0)
	is(false, 10*time.Second)
	now = now.Add(4 * time.Second)
	is(false, 6*time.Second)
	now = now.Add(6 * time.Second)
	is(false, 0)
	for _, want := range []time.Duration{20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute} {
		is(true, 0)
		is(false, want)
	}
	now = now.Add(damping.Steady)
	is(true, 0)
	is(false, 10*time.Second)
}
