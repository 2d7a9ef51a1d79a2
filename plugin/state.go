package clusterset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
	"github.com/clusterset/clusterset/internal/text"
)

// Variables, for tests.
var (
	// stateInterval is the shortest time between two writes of a file.
	stateInterval = 30 * time.Second
	// stateRefresh is how often an unchanged state is written again, so that the file's age says when the state was last known
	// to be right.
	stateRefresh = time.Hour
	// wallClock tells the age of a restored state.
	wallClock = time.Now
	// writeState writes a state file.
	writeState = statefile.Write
)

// stateRest is the shortest pause between writes, as a multiple of the last write's duration. So writing takes at most a
// twentieth of a core, however large the state is.
const stateRest = 20

// statePoll is how often the keeper checks whether a write is due.
const statePoll = 500 * time.Millisecond

// agePoll is how often the age of the restored state is checked. No timer would do, because the clock may be corrected meanwhile.
const agePoll = 10 * time.Second

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

// keeper saves a source's objects to a file, and restores them at the start, so that the indexes answer from them until the
// source has synced. It holds the indexes of the stanzas that have the snapshot option.
type keeper struct {
	snapshotOptions
	source  *source
	cluster func() statefile.Cluster
	indexes []*index.Index

	mu       sync.Mutex
	found    *statefile.State // the state in the file at the start, or a newer one of the server before, until the first sync, or nil
	restored *statefile.State // the same if an index answers from it, or nil
	live     bool             // synced
	last     written
	errors   rate.Sometimes
}

// written describes the last write, successful or not.
type written struct {
	at      time.Time // zero for never
	took    time.Duration
	ok      bool
	serials []uint32 // of the indexes, from before their objects were collected
}

func newKeeper(o snapshotOptions, s *source, cluster func() statefile.Cluster) *keeper {
	return &keeper{snapshotOptions: o, source: s, cluster: cluster, errors: rate.Sometimes{First: 3, Interval: 10 * time.Minute}}
}

// takeOver restores the file, after the server that is being replaced has written its state.
func (k *keeper) takeOver(before []*source) {
	for _, s := range before {
		if s.keeper != nil && s.keeper.path == k.path {
			s.keeper.flush()
		}
	}
	k.restore()
}

// handOver writes the file for the last time, unless another server owns it now.
func (k *keeper) handOver(now []*source) {
	for _, s := range now {
		if s.keeper != nil && s.keeper != k && s.keeper.path == k.path {
			return
		}
	}
	k.flush()
}

// run withdraws the restored state at its maximum age. From the first sync until the context ends, it writes the file whenever that is due.
func (k *keeper) run(ctx context.Context, synced <-chan struct{}) {
	tick := time.NewTicker(agePoll)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.withdraw(k.tooOld)
		case <-synced:
			waiting = false
		}
	}
	tick.Reset(statePoll)
	for {
		k.saveIfDue()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// restore reads the file and restores the indexes from it, until the first sync.
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
		log.Infof("snapshot %s: doesn't exist yet", k.path)
		return
	case err != nil:
		stateReads.WithLabelValues("refused").Inc()
		log.Errorf("snapshot %s: not used: %v", k.path, err)
		return
	}
	stateReads.WithLabelValues("ok").Inc()
	k.found = s
	for _, note := range notes[:min(len(notes), 20)] {
		log.Warningf("snapshot %s: %s", k.path, text.Truncate(note.String(), maxLogged))
	}
	for _, x := range k.indexes {
		if !s.Covers(x.Namespaces()) {
			log.Errorf("snapshot %s: not used for a stanza that serves other namespaces: the file was written for %q", k.path, s.Namespaces)
			continue
		}
		x.Restore(s.Objects, s.Known)
		k.restored = s
		staleGauge.WithLabelValues(k.source.label).Set(1)
	}
	if k.restored != nil {
		log.Infof("snapshot %s: answers are those of %s, marked as stale, until the API server's objects are known", k.path, s.Known.UTC().Format(time.RFC3339))
	}
}

// inherited is called when an index answers from the state of the server before, which is newer.
func (k *keeper) inherited(s *statefile.State) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.found, k.restored = s, s
	log.Infof("snapshot %s: answers are those of %s, which the server before the reload knew, until the API server's objects are known", k.path, s.Known.UTC().Format(time.RFC3339))
}

// usable returns an error if a state must not be used: it is another cluster's, or too old.
func (k *keeper) usable(s *statefile.State) error {
	if differs := k.cluster().Differs(s.Cluster); differs != "" {
		return fmt.Errorf("the file is from another cluster: %s", differs)
	}
	return k.tooOld(s)
}

// tooOld returns an error if a state has reached the maximum age.
func (k *keeper) tooOld(s *statefile.State) error {
	if age := wallClock().Sub(s.Known); k.maxAge > 0 && age >= k.maxAge {
		return fmt.Errorf("the file is from %s, %v ago, older than the maximum age of %v", s.Known.UTC().Format(time.RFC3339), age.Round(time.Second), k.maxAge)
	}
	return nil
}

// recognised is called when the cluster's UID is known.
func (k *keeper) recognised() { k.withdraw(k.usable) }

// withdraw withdraws the restored state if check returns why it must not be used.
func (k *keeper) withdraw(check func(*statefile.State) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.restored == nil || k.live {
		return
	}
	if err := check(k.restored); err != nil {
		log.Errorf("snapshot %s: no longer used: %v", k.path, err)
		stateReads.WithLabelValues("refused").Inc()
		k.found, k.restored = nil, nil
		for _, x := range k.indexes {
			x.Withdraw()
		}
		staleGauge.WithLabelValues(k.source.label).Set(0)
	}
}

// synced records that the indexes answer from the source.
func (k *keeper) synced() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.restored != nil {
		log.Infof("snapshot %s: no longer needed: the API server's objects are known", k.path)
	}
	k.live, k.found, k.restored = true, nil, nil
}

// saveIfDue writes the file if a write is due: something changed, or it is time to refresh its age. Serials show changes: they grow with each
// that affects an answer. Others, such as an endpoint beyond the boundary, are written with the next change or refresh.
func (k *keeper) saveIfDue() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.live {
		return
	}
	since := time.Since(k.last.at)
	changed := !k.last.ok || !slices.Equal(k.serials(), k.last.serials)
	switch {
	case k.last.at.IsZero():
	case changed && since >= max(stateInterval, stateRest*k.last.took):
	case !changed && since >= k.refresh() && k.source.lostAt.Load() == 0:
	default:
		return
	}
	k.save()
}

// refresh returns how often an unchanged state is written: at least four times within maxAge.
func (k *keeper) refresh() time.Duration {
	if k.maxAge > 0 {
		return max(min(stateRefresh, k.maxAge/4), stateInterval)
	}
	return stateRefresh
}

// flush writes the file at once, because another server is about to read it or this one ends.
func (k *keeper) flush() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.live {
		k.save()
	}
}

// save writes the file. k.mu is held.
func (k *keeper) save() {
	now := written{at: time.Now(), serials: k.serials()} // before the objects: a change in between is then written twice instead of never
	s := k.state()
	s.Known = k.source.lastContact()
	err := writeState(k.path, s)
	now.ok, now.took = err == nil, time.Since(now.at)
	k.last = now
	if err != nil {
		stateWrites.WithLabelValues("error").Inc()
		k.errors.Do(func() { log.Errorf("snapshot %s: not written: %v", k.path, err) })
	} else {
		stateWrites.WithLabelValues("ok").Inc()
	}
}

// state collects the objects of the indexes.
func (k *keeper) state() *statefile.State {
	s := &statefile.State{Cluster: k.cluster(), Namespaces: []string{}}
	for _, x := range k.indexes {
		if x.Namespaces() == nil {
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
		s.Namespaces = append(s.Namespaces, x.Namespaces()...)
	}
	slices.Sort(s.Namespaces)
	s.Namespaces = slices.Compact(s.Namespaces)
	return s
}

// serials returns the last serial that each index has given out.
func (k *keeper) serials() []uint32 {
	all := make([]uint32, len(k.indexes))
	for i, x := range k.indexes {
		if snapshot := x.Snapshot(); snapshot != nil {
			all[i] = snapshot.Serial()
		}
	}
	return all
}
