// Package verdict decides which clusters can be reached, by how dials to their beacons end, and when each is dialled next. It is the pure
// middle of package prober: values in, values out. Rules D40 to D50 of docs/spec/data-path.md.
package verdict

import (
	"slices"
	"time"

	"github.com/clusterset/clusterset/internal/damping"
)

const (
	// FailAfter is how long no dial may succeed before a cluster is unreachable, and failures how many must have failed since.
	FailAfter = 4 * time.Second
	failures  = 2
	// doubtAfter is how long a dial may be open before it is doubtful whether the cluster can be reached.
	doubtAfter = time.Second
	// stall is how late our own timer may be. Beyond that it is us who didn't run.
	stall = time.Second
)

// Reachable is what is known of a cluster. The zero value is Unknown.
type Reachable uint8

// What can be known of a cluster.
const (
	Unknown Reachable = iota
	True
	False
)

// String returns the word that the API uses.
func (r Reachable) String() string { return [...]string{"Unknown", "True", "False"}[r] }

// Reason says why a verdict is what it is.
type Reason string

// Reasons of verdicts.
const (
	// Answers: a beacon answers.
	Answers Reason = "Answers"
	// NoBeacon: the cluster states no beacon that this cluster may dial.
	NoBeacon Reason = "NoBeacon"
	// NotAllowed: the cluster states only beacons that are never dialled (D44).
	NotAllowed Reason = "NotAllowed"
	// NeverReached: no beacon has ever answered, so it may be the port that is blocked.
	NeverReached Reason = "NeverReached"
	// NoAnswer: nothing answered in time.
	NoAnswer Reason = "NoAnswer"
	// Refused: something on the way refused the connection.
	Refused Reason = "Refused"
	// WrongCluster: another cluster answered at that address.
	WrongCluster Reason = "WrongCluster"
	// AllUnreachable: no other cluster answers either, so that the verdict stays.
	AllUnreachable Reason = "AllUnreachable"
	// Returning: beacons answer again, but not yet for long enough.
	Returning Reason = "Returning"
)

// Verdict is the verdict on one cluster.
type Verdict struct {
	Reachable Reachable
	Reason    Reason
	// Since is when Reachable last changed.
	Since time.Time
	// Reached is whether a beacon of the cluster ever answered.
	Reached bool
}

// Machine has the verdicts on all other clusters. It does no I/O, reads no clock and is not safe for concurrent use.
type Machine struct {
	peers map[string]*peer
	all   map[string]Verdict // what Decide last returned
	last  time.Time          // when that was
	awoke time.Time          // dials that began before this can't fail: our timer was late
}

// peer is what is known of one cluster.
type peer struct {
	Verdict
	said   Verdict // what Decide last returned
	down   bool    // whether it can't be reached, whatever its return takes
	damper damping.Damper
	schedule

	good    time.Time     // the end of the last success, or since when failures count
	failed  int           // failures since
	why     Reason        // of the last of them
	witness time.Time     // the latest beginning of a dial that succeeded
	took    time.Duration // the round trip of the last one
	trial
}

// trial is how far it is proved that a cluster which doesn't answer is to blame, and not this agent. A success ends it.
type trial struct {
	doubt  time.Time // when the first dial had failed, or was open for long
	proof  time.Time // when a witness had answered
	guilty bool      // whether a dial that began after that has failed, or is open for long
}

// New returns a Machine without clusters.
func New() *Machine { return &Machine{peers: map[string]*peer{}} }

// Know adds a cluster with the verdict of an agent that ran before. A cluster that is already known stays as it is.
func (m *Machine) Know(cluster string, v Verdict, now time.Time) {
	if m.peers[cluster] != nil {
		return
	}
	p := &peer{Verdict: v, good: now, down: v.Reachable == False}
	p.damper.Note(p.down, now)
	m.peers[cluster] = p
}

// Set makes the clusters given the ones that are measured, and forgets all others. Those in without can't be dialled, for the reason given: they
// are Unknown, after the delay that one which answers again has too if they couldn't be reached. So call it again and again.
func (m *Machine) Set(measured []string, without map[string]Reason, now time.Time) {
	for name, p := range m.peers {
		if _, ok := without[name]; !ok && !slices.Contains(measured, name) {
			delete(m.peers, name)
		} else if ok {
			p.damper.Note(false, now)
			*p = peer{Verdict: Verdict{Reached: p.Reached, Since: p.Since, Reason: p.Reason, Reachable: p.Reachable}, said: p.said, damper: p.damper}
		}
	}
	for name, why := range without {
		m.Know(name, Verdict{Since: now}, now)
		if p := m.peers[name]; p.damper.Left(now) == 0 {
			p.say(Unknown, why, now)
		}
	}
	for _, name := range measured {
		m.Know(name, Verdict{Reason: NeverReached, Since: now}, now)
		if p := m.peers[name]; !p.dialled {
			p.good = now
			p.begin(name, m.interval(len(measured)), now)
		}
	}
}

// Done records how a dial ended. why is empty if it succeeded.
func (m *Machine) Done(cluster string, began, ended time.Time, roundTrip time.Duration, why Reason) {
	p := m.peers[cluster]
	if p == nil || !p.dialled {
		return
	}
	p.ended(began, why != "")
	switch {
	case why == "":
		p.good, p.failed, p.trial, p.Reached, p.took = ended, 0, trial{}, true, roundTrip
		if began.After(p.witness) {
			p.witness = began
		}
		p.down = false
		p.damper.Note(false, ended)
	case !began.Before(m.awoke):
		if p.doubt.IsZero() {
			p.doubt = ended
		}
		p.guilty = p.guilty || !p.proof.IsZero() && !began.Before(p.proof)
		p.failed++
		p.why = why
	}
}

// RoundTrip returns how long the last dial to a cluster took that succeeded, 0 if there was none.
func (m *Machine) RoundTrip(cluster string) time.Duration {
	if p := m.peers[cluster]; p != nil {
		return p.took
	}
	return 0
}

// Decide returns the verdict on each cluster, and whether any has changed. Call it several times a second: a gap means that this process
// stood still, and that dials which failed meanwhile say nothing.
func (m *Machine) Decide(now time.Time) (all map[string]Verdict, changed bool) {
	if !m.last.IsZero() && now.Sub(m.last) > stall {
		m.awoke = now
		for _, p := range m.peers {
			p.good, p.failed, p.trial = now, 0, trial{}
		}
	}
	m.last = now
	changed = len(m.all) != len(m.peers)
	for name, p := range m.peers {
		if p.dialled {
			m.decide(name, p, now)
		}
		changed = changed || p.said != p.Verdict
		p.said = p.Verdict
	}
	if changed { // whoever has the last ones may still read them
		m.all = make(map[string]Verdict, len(m.peers))
		for name, p := range m.peers {
			m.all[name] = p.Verdict
		}
	}
	return m.all, changed
}

func (m *Machine) decide(name string, p *peer, now time.Time) {
	witnessed, needed := false, false
	if !p.down {
		witnessed, needed = m.try(name, p, now)
	}
	silent := p.failed >= failures && now.Sub(p.good) >= FailAfter
	switch {
	case !p.Reached:
		p.say(Unknown, NeverReached, now)
		if p.why == WrongCluster {
			p.Reason = WrongCluster
		}
	case silent && !p.down && needed && !witnessed:
		p.Reason = AllUnreachable
	case silent && !p.down && needed && !p.guilty: // it may be about to answer, too
	case silent:
		p.down = true
		p.damper.Note(true, now)
		p.say(False, p.why, now)
	case p.down, p.Reachable != True && p.witness.IsZero(): // as it was before these beacons, or this agent
	case p.damper.Left(now) > 0:
		p.say(False, Returning, now)
	default:
		p.say(True, Answers, now)
	}
}

// try goes on with a cluster's trial. It reports whether there was a witness: a dial to another cluster that can be reached began after there
// was doubt, and succeeded. None is needed if there is no such cluster.
func (m *Machine) try(name string, p *peer, now time.Time) (witnessed, needed bool) {
	open := func(after time.Time, long time.Duration) bool {
		return slices.ContainsFunc(p.open, func(began time.Time) bool {
			return !began.Before(m.awoke) && !began.Before(after) && now.Sub(began) >= long
		})
	}
	if p.doubt.IsZero() && open(time.Time{}, doubtAfter) {
		p.doubt = now
	}
	if p.proof.IsZero() && !p.doubt.IsZero() {
		witnessed, needed = m.witnessed(name, p.doubt)
		if !witnessed {
			return false, needed
		}
		p.proof = now
	}
	p.guilty = p.guilty || !p.proof.IsZero() && open(p.proof, late)
	return !p.proof.IsZero(), true
}

// witnessed reports whether a dial to another cluster that can be reached began after the time given, and succeeded; and whether there is
// such a cluster at all.
func (m *Machine) witnessed(name string, after time.Time) (witnessed, others bool) {
	for other, p := range m.peers {
		if other == name || !p.dialled || !p.Reached || p.down {
			continue
		}
		if p.witness.After(after) {
			return true, true
		}
		others = true
	}
	return false, others
}

func (p *peer) say(r Reachable, why Reason, now time.Time) {
	if p.Reachable != r {
		p.Since = now
	}
	p.Reachable, p.Reason = r, why
}
