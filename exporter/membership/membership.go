// Package membership decides who works under a cluster's name on the hub: the holder of its Lease (rule C26 of docs/spec/control-plane.md).
// Values in, values out: package exporter reads and writes the Lease.
package membership

// Lease is what a read of the Lease shows. The zero value is that there is none.
type Lease struct {
	Version string // its resourceVersion
	Holder  string
	Renewed int64 // in microseconds, by the holder's clock; 0: never
}

// While the name isn't ours, the Lease is read PerInterval times in an interval of heartbeats. That many reads in a row must show it unchanged
// before its holder counts as gone: one and a half intervals for one of this cluster, and thirty for any other.
const (
	PerInterval = 2
	ownReads    = 3
	otherReads  = 60
)

// Wait is what is known while the name isn't ours. The zero value is that the Lease hasn't been read.
type Wait struct {
	version   string
	seen      bool
	changed   bool // so its holder works: if it is of this cluster, one is the other's clone
	unchanged int  // reads in a row
}

// See records a read that was answered, and returns whether the name is free. own says that a run of this cluster holds it.
func (w *Wait) See(l Lease, own bool) (free bool) {
	if w.seen && w.version == l.Version {
		w.unchanged++
	} else {
		w.changed = w.changed || w.seen
		w.seen, w.version, w.unchanged = true, l.Version, 0
	}
	switch {
	case l.Holder == "":
		return true
	case w.Long(own):
		return w.unchanged >= otherReads
	}
	return w.unchanged >= ownReads
}

// Long reports whether the wait takes thirty intervals.
func (w *Wait) Long(own bool) bool { return w.changed || !own }

// Unanswered records a read that wasn't answered. Nobody could renew the Lease then, so the wait begins again.
func (w *Wait) Unanswered() { w.unchanged = -1 }

// Verdict is what a read of the Lease shows to its holder.
type Verdict int

const (
	// Ours means that the Lease is as we wrote it.
	Ours Verdict = iota
	// Lost means that somebody else holds the name.
	Lost
	// Restored means that the Lease is older, or gone. So the hub was restored from a backup, and all that was read from it is in doubt.
	Restored
)

// Hold is what is known while the name is ours.
type Hold struct {
	Holder         string
	wrote, writing int64 // the last renewal that the hub is known to have, and a later one that it may have received
}

// Writing records that the Lease is about to be written with a time of renewal, and Wrote that it was.
func (h *Hold) Writing(renewed int64) { h.writing = renewed }

// Wrote is described at Writing.
func (h *Hold) Wrote() { h.wrote = h.writing }

// See returns what a read of the Lease shows.
func (h *Hold) See(l Lease) Verdict {
	switch {
	case l.Holder != "" && l.Holder != h.Holder:
		return Lost
	case l.Holder == h.Holder && (l.Renewed == h.wrote || l.Renewed == h.writing):
		h.wrote = l.Renewed
		return Ours
	}
	return Restored
}
