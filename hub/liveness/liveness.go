// Package liveness decides which clusters are alive, from when their heartbeats were last seen to change. It is the pure middle of
// package hub: values in, values out.
package liveness

import (
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Thresholds say after how long a silence what happens.
type Thresholds struct {
	Suspect time.Duration // the cluster ranks behind healthy ones
	Expire  time.Duration // its endpoints are not answered any more
	Forget  time.Duration // its records are deleted

	// Left is how long the MemberCluster of a cluster that has left is kept, for agents that aren't there to see it.
	Left time.Duration
}

// DefaultThresholds leave room for three lost heartbeats, and for the restart of a member's control plane.
var DefaultThresholds = Thresholds{Suspect: 40 * time.Second, Expire: 5 * time.Minute, Forget: 24 * time.Hour, Left: 7 * 24 * time.Hour}

// Liveness decides who is alive. All it goes by is when, by the caller's clock, a Lease was last seen to change: the
// members' clocks may be wrong, and a time at which nobody looked says nothing about a member.
//
//	            change                        change
//	  ┌────────────────────────┐ ┌────────────────────────────────┐
//	  ▼                        │ ▼                                │
//	Ready ── Suspect silent ─► Suspect ── Expire silent, no brake ─► Expired ── Forget silent ─► records deleted
//
// While nobody at all is heard, nobody moves.
//
// A Liveness does no I/O, reads no clock and is not safe for concurrent use.
type Liveness struct {
	thresholds Thresholds
	members    map[string]*member
	last       time.Time // of the last Decide
	heard      time.Time // the last change of anyone's Lease, or when we began to look
	braked     bool      // most are silent
	cutOff     bool      // all are, for so long that each would be suspected
}

// member is what is known of one.
type member struct {
	phase clustersetv1alpha1.MemberClusterPhase // empty: never heard
	beat  string                                // what its Lease said when last seen; see Observe
	first bool                                  // whether a Lease has been seen at all

	// silentSince is where its silence is counted from: the last change seen, or later, when we began to look.
	silentSince time.Time

	// heard is the last change anyone has seen: this process or, before it, the one that wrote the status. Zero: never.
	heard time.Time
}

// Decision is what a member is taken for.
type Decision struct {
	Phase  clustersetv1alpha1.MemberClusterPhase
	Heard  time.Time // the last heartbeat, zero if there never was one
	Paused bool      // the brake, or that nobody is heard, keeps it from expiring
	Forget bool      // its records are to be deleted
}

// New returns a Liveness that knows nobody yet.
func New(t Thresholds) *Liveness {
	return &Liveness{thresholds: t, members: make(map[string]*member)}
}

// Know makes a member known, from the status that an earlier process left. Its phase holds until it is heard or has been
// silent for long enough from now on: that nobody looked while the hub was down is no silence. A member already known
// stays as it is.
func (l *Liveness) Know(name string, phase clustersetv1alpha1.MemberClusterPhase, heard, now time.Time) {
	if l.heard.IsZero() {
		l.heard = now
	}
	if l.members[name] == nil {
		l.members[name] = &member{phase: phase, heard: heard, silentSince: now}
	}
}

// Drop makes a member unknown: it has left.
func (l *Liveness) Drop(name string) { delete(l.members, name) }

// Observe takes note of what a known member's Lease says. The first Lease seen is the one to compare with: it can be as old
// as the hub's last restart, so it is no sign of life unless the member has never given one.
func (l *Liveness) Observe(name, beat string, now time.Time) {
	m := l.members[name]
	if m == nil || m.first && m.beat == beat {
		return
	}
	changed := m.first || m.phase == ""
	m.first, m.beat = true, beat
	if changed {
		l.hear(now)
		m.phase, m.heard, m.silentSince = clustersetv1alpha1.MemberReady, now, now
	}
}

// hear takes note that there is somebody to hear. Of a time in which there was nobody, only a little counts as anyone's
// silence: the members are back one after the other, and the second shouldn't be suspected because the first was quicker. A
// little does, or a fleet that sends heartbeats that rarely would notice nobody's death.
func (l *Liveness) hear(now time.Time) {
	if l.deaf(now) {
		excess := now.Sub(l.heard) - l.thresholds.Suspect/4
		for _, m := range l.members {
			if !m.silentSince.After(l.heard) {
				m.silentSince = m.silentSince.Add(excess)
			}
		}
	}
	l.heard = now
}

// several says whether there is more than one member from whom something could be heard.
func (l *Liveness) several() bool {
	there := 0
	for _, m := range l.members {
		if m.there() {
			there++
		}
	}
	return there > 1
}

// there says whether the member counts as there until now.
func (m *member) there() bool {
	return m.phase == clustersetv1alpha1.MemberReady || m.phase == clustersetv1alpha1.MemberSuspect
}

// deaf says whether nobody at all has been heard for some time. Then it is us who don't hear. Suspecting all would change
// nobody's rank, but everyone's when they are heard again, one after the other.
func (l *Liveness) deaf(now time.Time) bool {
	return l.several() && now.Sub(l.heard) >= l.thresholds.Suspect/2
}

// Beat returns what a member's Lease said when last observed, and whether one ever was.
func (l *Liveness) Beat(name string) (string, bool) {
	if m := l.members[name]; m != nil {
		return m.beat, m.first
	}
	return "", false
}

// Decide moves every member on and returns what each is taken for. It is to be called often: after a gap of more than half
// of Suspect it assumes that this process was the one that stood still (a paused machine, a stopped container), with its
// watches, and doesn't count the gap as anyone's silence.
func (l *Liveness) Decide(now time.Time) map[string]Decision {
	if gap := now.Sub(l.last); !l.last.IsZero() && gap > l.thresholds.Suspect/2 {
		for _, m := range l.members {
			if m.silentSince.Before(l.last) || m.silentSince.Equal(l.last) {
				m.silentSince = m.silentSince.Add(gap)
			}
		}
		if !l.heard.After(l.last) {
			l.heard = l.heard.Add(gap)
		}
	}
	l.last = now
	deaf := l.deaf(now)

	for _, m := range l.members {
		if !deaf && m.phase == clustersetv1alpha1.MemberReady && now.Sub(m.silentSince) >= l.thresholds.Suspect {
			m.phase = clustersetv1alpha1.MemberSuspect
		}
	}
	l.brake(now)
	l.cutOff = deaf && now.Sub(l.heard) >= l.thresholds.Suspect

	decisions := make(map[string]Decision, len(l.members))
	for name, m := range l.members {
		silence := now.Sub(m.silentSince)
		if m.phase == clustersetv1alpha1.MemberSuspect && !l.braked && !deaf && silence >= l.thresholds.Expire {
			m.phase = clustersetv1alpha1.MemberExpired
		}
		decisions[name] = Decision{
			Phase:  m.phase,
			Heard:  m.heard,
			Paused: l.braked && m.phase == clustersetv1alpha1.MemberSuspect || l.cutOff && m.there(),
			// Heard by an earlier process counts too, else a hub restarted daily would never forget; but only once this
			// one has listened for as long as it takes to expire.
			Forget: m.phase == clustersetv1alpha1.MemberExpired && !l.braked && !deaf && silence >= l.thresholds.Expire &&
				now.Sub(m.heard) >= l.thresholds.Forget,
		}
	}
	return decisions
}

// brake decides whether the silence is ours. Of the members that were there until now, those that expired long ago aside,
// more than half can't well have died together; more likely we are the one that is cut off from the rest.
func (l *Liveness) brake(now time.Time) {
	var silent, there int
	for _, m := range l.members {
		if m.there() {
			there++
		}
		if m.phase == clustersetv1alpha1.MemberSuspect {
			silent++
		}
	}
	was := l.braked
	l.braked = silent > 1 && 2*silent > there
	if was && !l.braked {
		// The line is back, and the members return one by one. Those that haven't yet get their time from here: with the
		// whole outage counted against them they would expire a second before their next heartbeat.
		for _, m := range l.members {
			if m.phase == clustersetv1alpha1.MemberSuspect {
				m.silentSince = now
			}
		}
	}
}

// Braked says whether the last Decide found that the silence is ours: most members are silent, or all.
func (l *Liveness) Braked() bool { return l.braked || l.cutOff }
