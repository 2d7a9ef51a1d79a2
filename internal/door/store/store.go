// Package store is what an agent knows of its hub: the records as compact values (internal/door), the MemberClusters, and whether the hub
// answers.
//
// client-go's Reflectors fill it, each with one kind: of all namespaces or, in a set with communities, of the namespace of each cluster that this
// one shares a community with. API objects are dropped as they are decoded, except MemberClusters and this cluster's own records. Subscribers get
// the keys of what changed, and read the state as it is then. What is read here must not be changed.
//
// If the clusters that are read change, or the hub went back to a backup, other Reflectors begin, and what they list takes the place of what is
// here. A value equal to the one that is known keeps the known one's pointer, so a pointer is a version, and a list takes little memory.
package store

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
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
	hub     client.WithWatch
	back    chan struct{} // has an element when the hub is back
	running sync.WaitGroup

	mu        sync.RWMutex
	state     State                                        // whether the hub answers
	said      time.Time                                    // when the log last said that it doesn't
	ctx       context.Context                              // of Start; nil before
	members   map[string]*clustersetv1alpha1.MemberCluster // nil: not read yet
	peers     []string                                     // the clusters whose records are read; nil: all
	feeds     map[scope]*feed                              // what is being read
	clusters  map[string]*cluster                          // what has been read of them
	index     index                                        // by service
	synced    time.Time                                    // from when on it counts as complete; zero: this cluster's own records are missing
	onRecords []func(cluster string, key types.NamespacedName)
	onMember  []func(name string)

	// What nobody has been told of yet.
	changes map[change]bool
	over    map[string]bool
}

// change is a service of a cluster, or a MemberCluster: then there is no key.
type change struct {
	cluster string
	key     types.NamespacedName
}

// New returns a Store of a hub, whose client knows the kinds. It sends no request before Start.
func New(of client.WithWatch, options Options) *Store {
	return &Store{
		options: options, hub: of, back: make(chan struct{}, 1), state: State{Since: time.Now()}, feeds: map[scope]*feed{}, clusters: map[string]*cluster{}, index: index{},
	}
}

// Start reads the hub until ctx ends.
func (s *Store) Start(ctx context.Context) error {
	s.update(func() {
		s.ctx = ctx
		s.follow()
	})
	wait.UntilWithContext(ctx, func(context.Context) { s.update(s.readLeftOut) }, readAgain)
	s.update(func() {}) // after that no feed begins any more
	s.running.Wait()
	return nil
}

// Relist reads everything again: the hub has been restored from a backup.
func (s *Store) Relist() {
	s.update(func() {
		for at := range s.feeds {
			s.end(at)
		}
		s.follow()
	})
}

// OnRecords adds a function that is called with each service of a cluster that changes, is new or is gone, or is beyond MaxServices or no longer:
// after the change can be read, once for all that a list changes, and not locked. It must not block. Before OnRecords returns, it is called for
// what there is.
func (s *Store) OnRecords(changed func(cluster string, key types.NamespacedName)) {
	var there []change
	s.update(func() {
		s.onRecords = append(s.onRecords, changed)
		for name, c := range s.clusters {
			for key := range c.services {
				there = append(there, change{name, key})
			}
		}
	})
	for _, is := range there {
		changed(is.cluster, is.key)
	}
}

// OnMember is OnRecords for MemberClusters.
func (s *Store) OnMember(changed func(name string)) {
	s.update(func() { s.onMember = append(s.onMember, changed) })
	for _, m := range s.Members() {
		changed(m.Name)
	}
}

// update calls a function with the store locked, and then tells what changed.
func (s *Store) update(f func()) {
	s.mu.Lock()
	f()
	changes, over, onRecords, onMember := s.changes, s.over, s.onRecords, s.onMember
	s.changes, s.over = nil, nil
	s.mu.Unlock()
	for is := range changes {
		if is.key.Name == "" {
			for _, call := range onMember {
				call(is.cluster)
			}
			continue
		}
		for _, call := range onRecords {
			call(is.cluster, is.key)
		}
	}
	if s.options.Over != nil {
		for name, is := range over {
			s.options.Over(name, is)
		}
	}
}

// changed notes that services of a cluster have changed. The caller has locked s.
func (s *Store) changed(cluster string, keys ...types.NamespacedName) {
	for _, key := range keys {
		if key.Name != "" { // otherwise it is of no service
			s.note(change{cluster, key})
		}
	}
}

func (s *Store) note(is change) {
	if s.changes == nil {
		s.changes = map[change]bool{}
	}
	s.changes[is] = true
}

// kind is one of the hub's kinds. The first two are the records.
type kind int

const (
	services kind = iota
	endpoints
	members
)

func (k kind) String() string {
	return [...]string{"exportedservices", "exportedendpoints", "memberclusters"}[k]
}

// list returns an empty list of the kind.
func (k kind) list() client.ObjectList {
	return [...]client.ObjectList{&clustersetv1alpha1.ExportedServiceList{}, &clustersetv1alpha1.ExportedEndpointsList{}, &clustersetv1alpha1.MemberClusterList{}}[k]
}

// open returns an error for a watch that couldn't be opened.
func open(w watch.Interface, err error) (watch.Interface, error) {
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) { // what client-go returns for some errors
		return nil, errors.New("the hub closed the connection, or didn't reply in time")
	}
	return w, err
}
