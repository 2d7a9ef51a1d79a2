// Package membership decides whether an agent may work under its cluster's name, from what the name's Lease on the hub shows. Values in,
// values out: the exporter reads and writes the Lease. Rule C26 of docs/spec/control-plane.md.
//
// `join` refuses a name that is in use, but credentials can be copied together with a cluster's manifests, and a cluster can be restored from
// another's etcd while that one is still running (a clone). Each of the two would undo the other's records, for ever. Another cluster's
// agent differs in its cluster's identity, a clone's in the run ID that each process writes into the Lease. After a restart, a rollout or a
// change of leader the earlier run never writes again, and what a restored hub shows is old. So if a run's renewals keep appearing between
// ours, it runs at the same time. Both agents compare the same two start times. If clocks are wrong, they may agree on the wrong one as
// the later, but never on both or neither.
package membership

import (
	"slices"
	"time"
)

// State is what an agent knows of its cluster's name.
type State int

// The agent works under the name if it is Ours, Contested or Restored.
const (
	// Unclaimed: it isn't known yet whether the name is free.
	Unclaimed State = iota
	// Ours: nobody else renews the Lease.
	Ours
	// Contested: another run renews it too. It hasn't been proven yet that it isn't our predecessor, or it started later.
	Contested
	// Taken: another cluster works under the name. It is ours once that is silent.
	Taken
	// Cloned: a clone that started earlier works under the name. It is ours once that is silent.
	Cloned
	// Restored: the Lease isn't the one that we wrote last, so the hub was restored from a backup. It is ours, and all that was read from
	// the hub is in doubt. This is the state for one look.
	Restored
)

// Held reports whether the agent works under the name.
func (s State) Held() bool { return s == Ours || s == Contested || s == Restored }

// Lease is what the Lease shows. The zero value is none.
type Lease struct {
	Found   bool
	Cluster string    // whose it is, if it says so
	Run     string    // the process that renewed it last
	Started time.Time // when that process started, by its own clock; zero: it doesn't say
	Renewed int64     // in microseconds, by that process's clock
	Yields  string    // when a clone last said that it yields, if one does
}

// Write is what to write into the Lease about a clone.
type Write int

// A clone that yields says so now and then. Who goes on removes that once it is old.
const (
	Nothing Write = iota
	Yields
	NoClone
)

// Decision is what follows from a look at the Lease.
type Decision struct {
	State State
	Write Write
	// Clone is 1 if a clone of ours that yields has appeared, -1 if it is gone.
	Clone int
}

const (
	// Renewals is how many renewals by another run, each newer than the one before, prove a clone. Requests of our predecessor that
	// were under way, or that it made after a pause, are fewer.
	Renewals = 3
	// YieldFor is how many heartbeats the earlier agent must be silent before a clone takes over: five minutes by default, when the hub
	// marks the cluster Expired. A restart of the earlier one is shorter.
	YieldFor = 30
	// sayEvery is how often, in heartbeats, a yielding agent says so. If it hasn't for YieldFor, it is gone.
	sayEvery = 6
	// MaxUnconfirmed is how many renewals without an answer are remembered.
	MaxUnconfirmed = 32
)

// Name is what an agent knows of its cluster's name. Set the exported fields before the first look.
type Name struct {
	Cluster  string // our identity; empty: unknown, which lets everyone pass
	Run      string
	Started  time.Time
	Interval time.Duration // of heartbeats

	state State
	wait  wait
	hold  hold
}

// wait is what is known while the name isn't ours.
type wait struct {
	looks int
	clone bool      // who has it has our identity
	alive bool      // it has renewed the Lease while we looked
	beat  int64     // its last renewal
	since time.Time // when we first saw that
}

// hold is what is known while the name is ours.
type hold struct {
	confirmed bool       // whether we have renewed the Lease
	wrote     []sighting // the last renewal that the hub has confirmed, and later ones that it may have received
	setBack   *sighting  // the unexpected Lease that was last found
	other     sighting   // the last renewal by another run,
	renewals  int        // how many there were, each newer than the one before
	yields    string     // what a yielding clone last wrote, and when that changed
	heard     time.Time
}

// sighting identifies a renewal. It is zero if there is no Lease.
type sighting struct {
	run     string
	renewed int64
}

// Renewing records that the Lease is about to be renewed.
func (n *Name) Renewing(at int64) {
	if len(n.hold.wrote) == MaxUnconfirmed {
		n.hold.wrote = slices.Delete(n.hold.wrote, 1, 2)
	}
	n.hold.wrote = append(n.hold.wrote, sighting{n.Run, at})
}

// Renewed records that it was.
func (n *Name) Renewed() {
	n.hold.wrote, n.hold.confirmed, n.hold.setBack = n.hold.wrote[len(n.hold.wrote)-1:], true, nil
}

// Confirmed reports whether the Lease has been renewed since the name became ours. Before that, there is nothing to compare it with.
func (n *Name) Confirmed() bool { return n.hold.confirmed }

// See decides from a look at the Lease: once in an interval while the name isn't ours, and before each renewal when it is.
func (n *Name) See(l Lease, now time.Time) Decision {
	d := Decision{State: Ours}
	switch {
	case !n.state.Held():
		d = n.waiting(l, now)
	case n.hold.confirmed:
		d = n.holding(l, now)
	}
	if d.State.Held() != n.state.Held() {
		n.wait, n.hold = wait{clone: d.State == Cloned, alive: true}, hold{}
	}
	n.state = d.State
	return d
}

// twin reports whether a Lease is of a cluster with our identity. If either is unknown, it counts as ours.
func (n *Name) twin(l Lease) bool {
	return n.Cluster == "" || l.Cluster == "" || l.Cluster == n.Cluster
}

// patience is for how many heartbeats who has the name must be silent before it is ours.
func (w wait) patience() int {
	switch {
	case !w.clone:
		return 4
	case !w.alive:
		return 3 // a running one is heard within two; from four on, the hub marks us Suspect
	default:
		return YieldFor
	}
}

func (n *Name) waiting(l Lease, now time.Time) Decision {
	w, d := &n.wait, Decision{State: n.state}
	// If a clone has been seen, we may be either of the two: the earlier one, restarted, or the later one.
	w.clone = w.clone || n.twin(l) && l.Yields != ""
	switch {
	case !l.Found || n.twin(l) && !w.clone:
		return Decision{State: Ours}
	case w.since.IsZero():
		w.beat, w.since = l.Renewed, now
	case w.beat != l.Renewed:
		w.beat, w.since, w.alive = l.Renewed, now, true
		if d.State = Taken; w.clone {
			d.State = Cloned
		}
	case now.Sub(w.since) >= time.Duration(w.patience())*n.Interval:
		if d.State = Ours; w.clone && w.alive {
			d.Write = NoClone
		}
		return d
	}
	if w.clone && w.alive && w.looks%sayEvery == 0 {
		d.Write = Yields
	}
	w.looks++
	return d
}

func (n *Name) holding(l Lease, now time.Time) Decision {
	h, d := &n.hold, Decision{State: Ours}
	if !n.twin(l) {
		return Decision{State: Taken}
	}
	switch {
	case l.Yields == "" && h.yields != "":
		d.Clone = -1
	case l.Yields != "" && h.yields == "":
		d.Clone = 1
	}
	if l.Yields != h.yields {
		h.yields, h.heard = l.Yields, now
	} else if l.Yields != "" && now.Sub(h.heard) > YieldFor*n.Interval {
		d.Write = NoClone
	}
	is := sighting{l.Run, l.Renewed}
	if slices.Contains(h.wrote, is) {
		return d
	}
	if is.run != "" && is.run != n.Run {
		switch {
		case is.run != h.other.run:
			h.other, h.renewals = is, 1
		case is.renewed > h.other.renewed:
			h.other = is
			h.renewals++
		}
		switch {
		case h.renewals >= Renewals && n.startedAfter(l):
			d.State = Cloned
			return d
		case h.renewals >= 2: // the first may be a predecessor's, on a hub that was restored from a backup
			d.State = Contested
			return d
		}
	}
	if h.setBack == nil || *h.setBack != is {
		h.setBack, d.State = &is, Restored
	}
	return d
}

// startedAfter reports whether we are the later one. If the Lease doesn't say when the other started, we aren't.
func (n *Name) startedAfter(l Lease) bool {
	if l.Started.IsZero() {
		return false
	}
	if l.Started.Equal(n.Started) {
		return n.Run > l.Run
	}
	return n.Started.After(l.Started)
}

func (s State) String() string {
	return [...]string{"Unclaimed", "Ours", "Contested", "Taken", "Cloned", "Restored"}[s]
}
