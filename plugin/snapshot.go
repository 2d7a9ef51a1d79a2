package clusterset

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/snapshotfile"
)

// Variables, for tests.
var (
	// snapshotInterval is the least time between two writes of a file, whatever changes meanwhile.
	snapshotInterval = 30 * time.Second
	// snapshotUrgent is the least time where the serial has outrun what the file allows for.
	snapshotUrgent = time.Second
	// snapshotRefresh is how often an unchanged state is written again, so that its age says when it was last known to hold.
	snapshotRefresh = time.Hour
)

// snapshotPoll is how often is looked whether a write is due.
const snapshotPoll = 500 * time.Millisecond

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
	cluster func() snapshotfile.Cluster
	indexes []keptIndex

	changes atomic.Uint64 // counts what may have changed a state
	lostAt  atomic.Int64  // when the source ceased to be reachable, in Unix seconds, or 0: its state may not hold since

	mu       sync.Mutex
	restored *snapshotfile.State // what is answered from until the first sync, or nil
	live     bool                // synced
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
	ok       bool
	changes  uint64
	sum      [sha256.Size]byte // of what the state says, without its time and serial
	serial   uint32            // the last given out then
	reserved uint32            // the last that the file allows for
}

func newKeeper(o snapshotOptions, label string, cluster func() snapshotfile.Cluster) *keeper {
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
	tick := time.NewTicker(snapshotPoll)
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
	s, err := snapshotfile.Read(k.path)
	if err == nil {
		err = k.usable(s)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		snapshotReads.WithLabelValues("absent").Inc()
		log.Infof("snapshot %s: not there yet", k.path)
		return
	case err != nil:
		snapshotReads.WithLabelValues("refused").Inc()
		log.Errorf("snapshot %s: not used: %v", k.path, err)
		return
	}
	snapshotReads.WithLabelValues("ok").Inc()
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
func (k *keeper) usable(s *snapshotfile.State) error {
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
		snapshotReads.WithLabelValues("refused").Inc()
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
	since := time.Since(k.last.at)
	changed := k.changes.Load() != k.last.changes
	switch {
	case k.last.at.IsZero():
	case changed && since >= snapshotInterval:
	case changed && since >= snapshotUrgent && k.last.ok && k.serial() > k.last.reserved:
	case !changed && k.last.ok && since >= k.refresh() && k.lostAt.Load() == 0:
	default:
		return
	}
	k.save(false)
}

// refresh is often enough for an age to mean something beside the oldest that is allowed.
func (k *keeper) refresh() time.Duration {
	if k.maxAge > 0 {
		return max(min(snapshotRefresh, k.maxAge/4), snapshotInterval)
	}
	return snapshotRefresh
}

// flush writes the file at once, for another that is about to read it, or for good where last is true.
func (k *keeper) flush(last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live {
		k.save(last)
	}
}

// save writes the file unless it would say the same. k.mu is held.
func (k *keeper) save(last bool) {
	changes := k.changes.Load() // before the objects: a change in between is written twice, not never
	s := k.state()
	serial := s.Serial
	now := written{at: time.Now(), changes: changes, serial: serial, sum: sumOf(s)}
	fresh := k.last.ok && now.at.Sub(k.last.at) < k.refresh()
	if fresh && now.sum == k.last.sum && serial <= k.last.reserved && !last {
		k.last.changes = changes
		return
	}
	s.Known = now.at
	if lost := k.lostAt.Load(); lost != 0 {
		s.Known = time.Unix(lost, 0)
	}
	if !last {
		// What can be given out until the next write, going by what was since the last.
		grown := uint32(0)
		if k.last.ok {
			grown = serial - k.last.serial
		}
		s.Serial += max(serialReserve, 2*grown)
	}
	now.reserved = s.Serial
	err := snapshotfile.Write(k.path, s)
	now.ok = err == nil
	if err != nil {
		snapshotWrites.WithLabelValues("error").Inc()
		k.errors.Do(func() { log.Errorf("snapshot %s: not written: %v", k.path, err) })
		now.ok, now.changes = false, changes-1 // is tried again
	} else {
		snapshotWrites.WithLabelValues("ok").Inc()
	}
	k.last = now
}

// state gathers what the indexes hold.
func (k *keeper) state() *snapshotfile.State {
	s := &snapshotfile.State{Cluster: k.cluster(), Serial: k.serial(), Namespaces: []string{}}
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

// serial is the highest serial that the indexes have given out.
func (k *keeper) serial() uint32 {
	var highest uint32
	for _, x := range k.indexes {
		if snapshot := x.Snapshot(); snapshot != nil {
			highest = max(highest, snapshot.Serial())
		}
	}
	return highest
}

// sumOf sums up what a state says, without its time and its serial.
func sumOf(s *snapshotfile.State) (sum [sha256.Size]byte) {
	bare := *s
	bare.Known, bare.Serial = time.Unix(0, 0), 0
	h := sha256.New()
	_ = snapshotfile.Encode(h, &bare) // an error comes again when it is written
	h.Sum(sum[:0])
	return sum
}
