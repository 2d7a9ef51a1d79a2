package store

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// patience is how long what has been read waits for the rest of a selection.
	patience = 10 * time.Second
	// readAgain is how often what was left out for want of memory is read again, if there is room.
	readAgain = 10 * time.Minute
)

// Options configure a Store.
type Options struct {
	// Cluster is the member that reads. It has no bounds, and its own records are kept whole. Empty: none.
	Cluster string
	// MaxMemory is how many bytes the records of one other cluster may take here. 0: no bound.
	MaxMemory int
	// MaxServices is how many services one other cluster may export (rule C35 of docs/spec/control-plane.md). 0: no bound.
	MaxServices int
	// Over is called when something of a cluster is left out because of MaxMemory, and when it is read again because there is room. Optional.
	Over func(cluster string, over bool)
}

// Store is what is known of the hub. Create it with New.
type Store struct {
	options Options
	hub     hub
	link    *link
	running sync.WaitGroup

	mu                   sync.RWMutex
	ctx                  context.Context // of Start; nil before
	selected             selection
	shown                map[string]*reading // by namespace on the hub, "" for all: what is read from
	pending              map[string]*reading // those that take their places
	patient              *time.Timer         // runs out when those that have been read don't wait for the others
	impatient            bool                // it has
	view                 map[string]*cluster // by name: what shown has of those selected
	over                 map[string]bool     // clusters of which something is left out, and whether something of theirs has gone since
	members, nextMembers *reading            // of the MemberClusters; nil: not read yet; none has begun
	onRecords            []func(cluster string, key types.NamespacedName)
	onMember             []func(name string)
	untold               changes
}

// selection is what is wanted of the records.
type selection struct {
	peers  []string // clusters, nil for all
	peered bool     // whether SetPeers has been called
}

// changes are those that nobody has been told of yet.
type changes struct {
	places map[place]bool
	over   []func()
}

// place is where a service is exported, or a MemberCluster: then there is no key.
type place struct {
	cluster string
	key     types.NamespacedName
}

// New returns a Store of the hub that config describes. It sends no request before Start, and none for records before
// SetPeers has been called.
func New(config *rest.Config, over *http.Client, options Options) (*Store, error) {
	of, err := newServer(config, over)
	if err != nil {
		return nil, err
	}
	return newStore(of, options), nil
}

func newStore(of hub, options Options) *Store {
	return &Store{
		options: options, hub: of, link: newLink(), shown: map[string]*reading{}, pending: map[string]*reading{}, view: map[string]*cluster{},
		over: map[string]bool{},
	}
}

// SetPeers selects the records of these clusters, the member's own among them. Nil selects all clusters, in one request for each kind. Those that
// aren't selected any more go at once. Those that are new join together when their records have been read, or after ten seconds (rule C18 of
// docs/spec/control-plane.md).
func (s *Store) SetPeers(clusters []string) {
	s.update(func() {
		s.selected.peered, s.selected.peers = true, slices.Clone(clusters)
		s.read()
	})
}

// Relist reads everything again: the hub has been restored from a backup.
func (s *Store) Relist() {
	s.update(func() {
		for _, r := range s.shown {
			r.stale = true
		}
		for _, r := range s.pending {
			r.stale = true
		}
		s.readMembers()
		s.read()
	})
}

// OnRecords adds a function that is called with each service of a cluster that changes, is new or is gone, or is beyond MaxServices or no longer:
// after the change can be read, once for all that a list changes, and not locked. It must not block. Before OnRecords returns, it is called for
// what there is.
func (s *Store) OnRecords(changed func(cluster string, key types.NamespacedName)) {
	var there []place
	s.update(func() {
		s.onRecords = append(s.onRecords, changed)
		for name, c := range s.view {
			for key := range c.services {
				there = append(there, place{name, key})
			}
		}
	})
	for _, at := range there {
		changed(at.cluster, at.key)
	}
}

// OnMember is OnRecords for MemberClusters.
func (s *Store) OnMember(changed func(name string)) {
	s.update(func() { s.onMember = append(s.onMember, changed) })
	for _, m := range s.Members() {
		changed(m.Name)
	}
}

// update calls a function with the store locked, and then tells what it changed.
func (s *Store) update(f func()) {
	s.mu.Lock()
	f()
	told, onRecords, onMember := s.untold, s.onRecords, s.onMember
	s.untold = changes{}
	s.mu.Unlock()
	for at := range told.places {
		if at.key.Name == "" {
			for _, call := range onMember {
				call(at.cluster)
			}
			continue
		}
		for _, call := range onRecords {
			call(at.cluster, at.key)
		}
	}
	for _, call := range told.over {
		call()
	}
}

// changed notes what changed. The caller has locked s.
func (s *Store) changed(cluster string, key types.NamespacedName) {
	if s.untold.places == nil {
		s.untold.places = map[place]bool{}
	}
	s.untold.places[place{cluster, key}] = true
}

// Start reads the hub until ctx ends.
func (s *Store) Start(ctx context.Context) error {
	s.update(func() {
		s.ctx = ctx
		s.readMembers()
		s.read()
	})
	tick := time.NewTicker(readAgain)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			s.update(s.readLeftOut)
		}
	}
	s.update(func() {}) // after that nothing is begun any more
	s.running.Wait()
	return nil
}

// leftOut notes that something of a cluster didn't fit. The caller has locked s.
func (s *Store) leftOut(cluster string) {
	if _, known := s.over[cluster]; !known {
		s.over[cluster] = false
		s.tellOver(cluster, true)
	}
}

// gone notes that something of a cluster went, or became smaller. The caller has locked s.
func (s *Store) gone(cluster string) {
	if _, known := s.over[cluster]; known {
		s.over[cluster] = true
	}
}

func (s *Store) tellOver(cluster string, over bool) {
	if call := s.options.Over; call != nil {
		s.untold.over = append(s.untold.over, func() { call(cluster, over) })
	}
}

// readLeftOut reads again what was left out, where a quarter of the room is free. The caller has locked s.
func (s *Store) readLeftOut() {
	for name, less := range s.over {
		r := s.readingOf(name)
		if r != nil && !(less && r.quota.quarterFree(name)) {
			continue
		}
		delete(s.over, name)
		s.tellOver(name, false)
		if r != nil {
			r.stale = true
		}
	}
	s.read()
}
