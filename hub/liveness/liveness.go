// Package liveness decides which clusters are alive, by when their heartbeats were last seen to change. It is the pure middle
// of package hub: values in, values out.
package liveness

import (
	"time"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// Thresholds are the lengths of silence after which the phase changes.
type Thresholds struct {
	Suspect time.Duration // the cluster ranks behind healthy ones
	Expire  time.Duration // its endpoints are not answered any more
	Forget  time.Duration // its records are deleted

	// Left is how long the MemberCluster of a cluster that has left is kept, for agents that are offline.
	Left time.Duration
}

// DefaultThresholds allow for three lost heartbeats, and for a restart of a member's control plane.
var DefaultThresholds = Thresholds{Suspect: 40 * time.Second, Expire: 5 * time.Minute, Forget: 24 * time.Hour, Left: 7 * 24 * time.Hour}

// listen returns how long a member must be silent for a process that forgets it by a heartbeat that an earlier one saw: an hour by default. The
// hub may have been restored from an old backup, in which the member was silent, and it takes the member's agent a while to find this hub.
func (t Thresholds) listen() time.Duration { return max(t.Expire, t.Forget/24) }

// Liveness decides which members are alive. It depends only on when, by the caller's clock, a Lease was last seen to change: the
// members' clocks may be wrong, and time in which the hub process didn't watch says nothing about a member.
//
//	            change                        change
//	  ┌────────────────────────┐ ┌────────────────────────────────┐
//	  ▼                        │ ▼                                │
//	Ready ── Suspect silent ─► Suspect ── Expire silent, not paused ─► Expired ── Forget silent ─► records deleted
//
// While no heartbeat at all arrives, no phase changes.
//
// A Liveness does no I/O, reads no clock and is not safe for concurrent use.
type Liveness struct {
	thresholds Thresholds
	members    map[string]*member
	last       time.Time // when Decide was last called
	heard      time.Time // the last change of anyone's Lease, or when we began to look
	braked     bool      // most are silent
	cutOff     bool      // all are, for long enough to be suspected
}

// member is what is known of one.
type member struct {
	phase clustersetv1alpha1.MemberClusterPhase // empty: never heard
	beat  string                                // the Lease's content when last seen; see Observe
	older string                                // the one before
	first bool                                  // whether a Lease has been seen at all

	// silentSince is when its silence began: the last change seen, or when we began to watch; later by the time that doesn't count.
	silentSince time.Time

	// heard is the last change that anyone has seen: this process or, before it, the one that wrote the status. Zero: never.
	heard time.Time
}

// Decision is the result for a member.
type Decision struct {
	Phase  clustersetv1alpha1.MemberClusterPhase
	Heard  time.Time // the last heartbeat, zero if there never was one
	Paused bool      // expiry is paused, or the silence of all members keeps it from expiring
	Forget bool      // its records are to be deleted
}

// New returns a Liveness without members.
func New(t Thresholds) *Liveness {
	return &Liveness{thresholds: t, members: make(map[string]*member)}
}

// Know adds a member with the status that an earlier process wrote. Its phase holds until its heartbeat is seen, or until it has
// been silent for long enough from now on: time in which no hub process watched doesn't count as silence. A member that is already
// known stays as it is.
func (l *Liveness) Know(name string, phase clustersetv1alpha1.MemberClusterPhase, heard, now time.Time) {
	if l.heard.IsZero() {
		l.heard = now
	}
	if l.members[name] == nil {
		l.members[name] = &member{phase: phase, heard: heard, silentSince: now}
	}
}

// Drop removes a member that has left.
func (l *Liveness) Drop(name string) { delete(l.members, name) }

// Observe records the content of a known member's Lease. The first Lease seen is only the one to compare with: it may be as old
// as the hub's last restart, so it is no sign of life unless the member has never given one. Nor is the one before the last, which a cache may
// still have when the API server was asked.
func (l *Liveness) Observe(name, beat string, now time.Time) {
	m := l.members[name]
	if m == nil || m.first && (m.beat == beat || m.older == beat) {
		return
	}
	changed := m.first || m.phase == ""
	m.first, m.older, m.beat = true, m.beat, beat
	if changed {
		l.hear(now)
		m.phase, m.heard, m.silentSince = clustersetv1alpha1.MemberReady, now, now
	}
}

// hear records that heartbeats arrive. Of a period without any heartbeat, only a small part counts as a member's silence: the
// members come back one after another, and the second must not be suspected because the first was quicker. A small part must
// count, or a fleet with rare heartbeats would never notice a death.
func (l *Liveness) hear(now time.Time) {
	if l.hubSilent(now) {
		excess := now.Sub(l.heard) - l.thresholds.Suspect/4
		for _, m := range l.members {
			if !m.silentSince.After(l.heard) && !l.spares(m) { // Decide has subtracted it
				m.silentSince = m.silentSince.Add(excess)
			}
		}
	}
	l.heard = now
}

// several reports whether there is more than one member whose heartbeat could be seen.
func (l *Liveness) several() bool {
	there := 0
	for _, m := range l.members {
		if m.there() {
			there++
		}
	}
	return there > 1
}

// there reports whether the member was alive until now.
func (m *member) there() bool {
	return m.phase == clustersetv1alpha1.MemberReady || m.phase == clustersetv1alpha1.MemberSuspect
}

// hubSilent reports whether no heartbeat has arrived for some time. Then the fault is ours. Suspecting all members would change
// no rank at first, but it would change ranks when their heartbeats arrive again, one after another.
func (l *Liveness) hubSilent(now time.Time) bool {
	return l.several() && now.Sub(l.heard) >= l.thresholds.Suspect/2
}

// Decide advances every member and returns the decision for each. Call it often: after a gap of more than half of Suspect it
// assumes that this process, with its watches, was the one that stood still (a paused machine, a stopped container), and
// doesn't count the gap as a member's silence.
func (l *Liveness) Decide(now time.Time) map[string]Decision {
	// Suspect members' silence stands still while expiry is paused. If it began anew afterwards, a dead member would never expire
	// while others come and go; if all of it counted, members that return one by one would expire a second before their next heartbeat.
	gap := now.Sub(l.last)
	stoodStill := !l.last.IsZero() && gap > l.thresholds.Suspect/2
	for _, m := range l.members {
		if (stoodStill || l.spares(m)) && !m.silentSince.After(l.last) {
			m.silentSince = m.silentSince.Add(gap)
		}
	}
	if stoodStill && !l.heard.After(l.last) {
		l.heard = l.heard.Add(gap)
	}
	l.last = now
	silent := l.hubSilent(now)

	for _, m := range l.members {
		if !silent && m.phase == clustersetv1alpha1.MemberReady && now.Sub(m.silentSince) >= l.thresholds.Suspect {
			m.phase = clustersetv1alpha1.MemberSuspect
		}
	}
	l.pauseExpiry()
	l.cutOff = silent && now.Sub(l.heard) >= l.thresholds.Suspect

	decisions := make(map[string]Decision, len(l.members))
	for name, m := range l.members {
		silence := now.Sub(m.silentSince)
		if m.phase == clustersetv1alpha1.MemberSuspect && !l.braked && !silent && silence >= l.thresholds.Expire {
			m.phase = clustersetv1alpha1.MemberExpired
		}
		decisions[name] = Decision{
			Phase:  m.phase,
			Heard:  m.heard,
			Paused: l.braked && m.phase == clustersetv1alpha1.MemberSuspect || l.cutOff && m.there(),
			// A heartbeat that an earlier process saw counts too, or a hub that is restarted daily would never forget; but only
			// once this process has listened for long enough.
			Forget: m.phase == clustersetv1alpha1.MemberExpired && !l.braked && !silent && silence >= l.thresholds.listen() &&
				now.Sub(m.heard) >= l.thresholds.Forget,
		}
	}
	return decisions
}

// pauseExpiry decides whether the silence is the hub's fault. It considers the members that were alive until now, not those that expired
// long ago. More than half of them are unlikely to have died together; more likely the hub is cut off from the rest.
func (l *Liveness) pauseExpiry() {
	var silent, there int
	for _, m := range l.members {
		if m.there() {
			there++
		}
		if m.phase == clustersetv1alpha1.MemberSuspect {
			silent++
		}
	}
	l.braked = silent > 1 && 2*silent > there
}

// spares reports whether the member's silence doesn't count, because expiry is paused.
func (l *Liveness) spares(m *member) bool {
	return l.braked && m.phase == clustersetv1alpha1.MemberSuspect
}

// Braked reports whether the last Decide found that the silence is the hub's fault: most members are silent, or all.
func (l *Liveness) Braked() bool { return l.braked || l.cutOff }
