// Package damping makes a cluster that comes back wait before it is used again. It is taken out at once and put back with delay:
// otherwise one that flaps would move all traffic each time. Values in, values out; rule D5 of docs/spec/data-path.md.
package damping

import "time"

const (
	// After is the wait after the first failure. It doubles with each further one, up to Max.
	After = 10 * time.Second
	// Max is the longest wait.
	Max = 5 * time.Minute
	// Steady is how long nothing may fail for earlier failures to be forgotten.
	Steady = 2 * Max
)

// Damper is what is known of one cluster. The zero value has never failed.
type Damper struct {
	down  bool
	since time.Time // when it was last back
	times int       // how often it has come back since it was last steady
}

// Note records whether the cluster is down.
func (d *Damper) Note(down bool, now time.Time) {
	if d.down == down {
		return
	}
	d.down = down
	if !down {
		d.since = now
		d.times++
	} else if now.Sub(d.since) >= Steady {
		d.times = 0
	}
}

// Left returns for how long the cluster must stay up before it is used, 0 if it may be, or is down.
func (d *Damper) Left(now time.Time) time.Duration {
	if d.down || d.times == 0 {
		return 0
	}
	after := After
	for i := 1; i < d.times && after < Max; i++ {
		after *= 2
	}
	return max(0, min(after, Max)-now.Sub(d.since))
}
