package clusterset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
)

// Variables, for tests.
var (
	// stateInterval is the least time between two writes of a file, whatever changes meanwhile.
	stateInterval = 30 * time.Second
	// stateUrgent is the least time where the serial has outrun what the file allows for.
	stateUrgent = time.Second
	// stateRefresh is how often an unchanged state is written again, so that its age says when it was last known to hold.
	stateRefresh = time.Hour
	// writeState writes a file.
	writeState = statefile.Write
)

// stateRest is how many times as long as the last write took the next one waits at least: however large the state, writing takes
// a twentieth of a core at most.
const stateRest = 20

// statePoll is how often is looked whether a write is due.
const statePoll = 500 * time.Millisecond

// serialReserve is how many serials a file allows for at least beyond the last that was given out. A server that is killed
// goes on behind them, so that its serials never go back. It costs a quiet server nothing: the clock is further by then.
const serialReserve = 256

// snapshotOptions is the snapshot option of a stanza.
type snapshotOptions struct {
	path   string        // "" for none
	maxAge time.Duration // 0 for any
}

// String returns the option's arguments.
func (o snapshotOptions) String() string {
	if o.maxAge == 0 {
		return o.path
	}
	return fmt.Sprintf("%s %v", o.path, o.maxAge)
}

// keeper keeps what a source knows in a file, and has the indexes answer from it when the source can't be reached at the
// start. Only the stanzas with the option take part.
type keeper struct {
	snapshotOptions
	label   string // of the source, in metrics
	cluster func() statefile.Cluster
	indexes []keptIndex

	lostAt atomic.Int64 // when the source ceased to be reachable, in Unix seconds, or 0: its state may not hold since

	mu       sync.Mutex
	restored *statefile.State // what is answered from until the first sync, or nil
	live     bool             // synced
	last     written
	errors   rate.Sometimes
}

type keptIndex struct {
	*index.Index
	namespaces []string // nil for all
}

// written is what was written last, or tried to be.
type written struct {
	at       time.Time // zero for never
	took     time.Duration
	ok       bool
	serials  []uint32 // of the indexes, before their objects were taken
	reserved uint32   // the last serial that the file allows for
}

func newKeeper(o snapshotOptions, label string, cluster func() statefile.Cluster) *keeper {
	return &keeper{snapshotOptions: o, label: label, cluster: cluster, errors: rate.Sometimes{First: 3, Interval: 10 * time.Minute}}
}

// takeOver restores the file, once the server that is being replaced has written what it knows.
func (k *keeper) takeOver(before []*source) {
	for _, s := range before {
		if s.keeper != nil && s.keeper.path == k.path {
			s.keeper.flush(false)
		}
	}
	k.restore()
}

// handOver writes the file for the last time, unless another server has it now.
func (k *keeper) handOver(now []*source) {
	for _, s := range now {
		if s.keeper != nil && s.keeper != k && s.keeper.path == k.path {
			return
		}
	}
	k.flush(true)
}

// run writes the file from the first sync on, until the context ends.
func (k *keeper) run(ctx context.Context, synced <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-synced:
	}
	tick := time.NewTicker(statePoll)
	defer tick.Stop()
	for {
		k.saveIfDue()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// restore reads the file and has the indexes answer from it until the first sync.
func (k *keeper) restore() {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, notes, err := statefile.Read(k.path)
	if err == nil {
		err = k.usable(s)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		stateReads.WithLabelValues("absent").Inc()
		log.Infof("snapshot %s: not there yet", k.path)
		return
	case err != nil:
		stateReads.WithLabelValues("refused").Inc()
		log.Errorf("snapshot %s: not used: %v", k.path, err)
		return
	}
	stateReads.WithLabelValues("ok").Inc()
	for _, note := range notes[:min(len(notes), 20)] {
		log.Warningf("snapshot %s: %s", k.path, shortened(note.String()))
	}
	for _, x := range k.indexes {
		if !s.Covers(x.namespaces) {
			log.Errorf("snapshot %s: not used for a stanza that serves other namespaces: it was written for %q", k.path, s.Namespaces)
			x.Resume(s.Serial)
			continue
		}
		x.Restore(s.Objects, s.Serial)
		k.restored = s
		staleGauge.WithLabelValues(k.label).Set(1)
	}
	if k.restored != nil {
		log.Infof("snapshot %s: answers are those of %s, marked as stale, until the API server's objects are known", k.path, s.Known.UTC().Format(time.RFC3339))
	}
}

// usable returns why a state can't be answered from.
func (k *keeper) usable(s *statefile.State) error {
	if differs := k.cluster().Differs(s.Cluster); differs != "" {
		return fmt.Errorf("it is of another cluster: here, %s", differs)
	}
	if age := time.Since(s.Known); k.maxAge > 0 && age > k.maxAge {
		return fmt.Errorf("it is of %s, %v ago, and older than %v", s.Known.UTC().Format(time.RFC3339), age.Round(time.Second), k.maxAge)
	}
	return nil
}

// recognised compares the restored state with what has been learned of the cluster since, and takes it back where it is of
// another.
func (k *keeper) recognised() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.restored == nil || k.live {
		return
	}
	if differs := k.cluster().Differs(k.restored.Cluster); differs != "" {
		log.Errorf("snapshot %s: no longer used: it is of another cluster: here, %s", k.path, differs)
		stateReads.WithLabelValues("refused").Inc()
		k.restored = nil
		for _, x := range k.indexes {
			x.Withdraw()
		}
		staleGauge.WithLabelValues(k.label).Set(0)
	}
}

// reachable says whether the source is, all of it.
func (k *keeper) reachable(yes bool) {
	if yes {
		k.lostAt.Store(0)
	} else {
		k.lostAt.CompareAndSwap(0, time.Now().Unix())
	}
}

// synced says that the indexes answer from the source.
func (k *keeper) synced() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.restored != nil {
		log.Infof("snapshot %s: no longer needed: the API server's objects are known", k.path)
	}
	k.live, k.restored = true, nil
	staleGauge.WithLabelValues(k.label).Set(0)
}

// saveIfDue writes the file where it is time to.
func (k *keeper) saveIfDue() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.live {
		return
	}
	serials := k.serials()
	since := time.Since(k.last.at)
	rest := stateRest * k.last.took
	changed := !k.last.ok || !slices.Equal(serials, k.last.serials)
	switch {
	case k.last.at.IsZero():
	case changed && since >= max(stateInterval, rest):
	case changed && since >= max(stateUrgent, rest) && k.last.ok && slices.Max(serials) > k.last.reserved:
	case !changed && since >= k.refresh() && k.lostAt.Load() == 0:
	default:
		return
	}
	k.save(false)
}

// refresh is often enough for an age to mean something beside the oldest that is allowed.
func (k *keeper) refresh() time.Duration {
	if k.maxAge > 0 {
		return max(min(stateRefresh, k.maxAge/4), stateInterval)
	}
	return stateRefresh
}

// flush writes the file at once, for another that is about to read it, or for good where last is true.
func (k *keeper) flush(last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live {
		k.save(last)
	}
}

// save writes the file unless it would say the same. Serials tell: they grow with all that shows in an answer. What doesn't
// show, such as an endpoint beyond the boundary, is written with what does, or for its age. k.mu is held.
func (k *keeper) save(last bool) {
	now := written{at: time.Now(), serials: k.serials()} // before the objects: a change in between is written twice, not never
	fresh := k.last.ok && now.at.Sub(k.last.at) < k.refresh()
	if fresh && slices.Equal(now.serials, k.last.serials) && !last {
		return
	}
	s := k.state()
	s.Known, s.Serial = now.at, slices.Max(now.serials)
	if lost := k.lostAt.Load(); lost != 0 {
		s.Known = time.Unix(lost, 0)
	}
	if !last {
		// What can be given out until the next write, going by what was since the last.
		grown := uint32(0)
		if k.last.ok {
			grown = s.Serial - slices.Max(k.last.serials)
		}
		s.Serial += max(serialReserve, 2*grown)
	}
	now.reserved = s.Serial
	err := writeState(k.path, s)
	now.ok, now.took = err == nil, time.Since(now.at)
	if err != nil {
		stateWrites.WithLabelValues("error").Inc()
		k.errors.Do(func() { log.Errorf("snapshot %s: not written: %v", k.path, err) })
	} else {
		stateWrites.WithLabelValues("ok").Inc()
	}
	k.last = now
}

// state gathers what the indexes hold.
func (k *keeper) state() *statefile.State {
	s := &statefile.State{Cluster: k.cluster(), Namespaces: []string{}}
	for _, x := range k.indexes {
		if x.namespaces == nil {
			s.Namespaces, s.Objects = nil, x.Objects()
			return s
		}
	}
	for i, x := range k.indexes {
		for _, o := range x.Objects() {
			ns := o.ID().Namespace
			if clusterScoped := ns == ""; clusterScoped && i == 0 || !clusterScoped && !slices.Contains(s.Namespaces, ns) {
				s.Objects = append(s.Objects, o)
			}
		}
		s.Namespaces = append(s.Namespaces, x.namespaces...)
	}
	slices.Sort(s.Namespaces)
	s.Namespaces = slices.Compact(s.Namespaces)
	return s
}

// serials are the last that each index has given out.
func (k *keeper) serials() []uint32 {
	all := make([]uint32, len(k.indexes))
	for i, x := range k.indexes {
		if snapshot := x.Snapshot(); snapshot != nil {
			all[i] = snapshot.Serial()
		}
	}
	return all
}
