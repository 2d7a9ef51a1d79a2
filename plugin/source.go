package clusterset

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/internal/index"
	"github.com/clusterset/clusterset/internal/statefile"
	"github.com/clusterset/clusterset/internal/text"
)

var errNotReady = errors.New("waiting for the first sync")

// serials are shared by all server blocks, and by the servers before and after a reload.
var serials index.Serials

// feed reads objects and passes them to a source, until its context ends.
type feed interface {
	// name is used in logs and metric labels.
	name() string
	run(ctx context.Context, s *source)
}

// source passes the objects of a feed to the indexes of all server blocks that share it, and tracks which kinds have
// been read. It owns the feed's goroutines. None outlives close, so a CoreDNS reload leaks nothing.
type source struct {
	feed     feed
	corefile *sources
	label    string // in metrics and logs
	indexes  []*index.Index
	keeper   *keeper // nil if no stanza has the snapshot option
	notify   []*notifier
	synced   chan struct{}
	lostAt   atomic.Int64 // when the source became unreachable, in Unix seconds, or 0; its state may be outdated since then

	mu      sync.Mutex
	unread  map[index.Kind]bool
	watched map[index.Kind]bool // currently
	cancel  context.CancelFunc
	// startedAt is written once, by start, and only read after that.
	startedAt time.Time
	done      chan struct{}
	invalid   rate.Sometimes
}

func newSource(f feed) *source {
	s := &source{
		feed:    f,
		label:   f.name(),
		synced:  make(chan struct{}),
		unread:  map[index.Kind]bool{},
		watched: map[index.Kind]bool{},
		invalid: rate.Sometimes{First: 20, Interval: 10 * time.Second},
	}
	for _, k := range index.Kinds {
		s.unread[k] = true
	}
	return s
}

// start runs the feed. Each server block that shares the source calls it; later calls do nothing.
func (s *source) start() {
	before := running()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.done, s.startedAt = cancel, make(chan struct{}), time.Now()
	s.showSource()
	if s.keeper != nil {
		s.keeper.takeOver(before)
	}
	if f, ok := s.feed.(*manifestsFeed); ok {
		f.takeOver(before)
	}
	s.showMetrics() // only now: a reload that failed earlier must not change the running server's metrics
	go func() {
		defer close(s.done)
		var wg sync.WaitGroup
		if s.keeper != nil {
			wg.Go(func() { s.keeper.run(ctx, s.synced) })
		}
		for _, n := range s.notify {
			wg.Go(func() { n.run(ctx) })
		}
		s.feed.run(ctx, s)
		wg.Wait()
	}()
}

func (s *source) isStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancel != nil
}

// identified is a feed of a cluster.
type identified interface{ identity() statefile.Cluster }

// inherit makes an index answer from what a running server knows of the same cluster, until the source has been read. It is for a reload
// while the API server is away.
func (s *source) inherit(x *index.Index) {
	before := running() // which takes s.mu, too
	s.mu.Lock()
	defer s.mu.Unlock()
	y, past := s.forerunner(x, before)
	if y == nil {
		return
	}
	past.Objects = y.Objects()
	x.Restore(past.Objects, past.Known)
	staleGauge.WithLabelValues(s.label).Set(1)
	if s.keeps(x) {
		s.keeper.inherited(past)
	}
}

// keeps reports whether the stanza of an index has a state file.
func (s *source) keeps(x *index.Index) bool {
	return s.keeper != nil && slices.Contains(s.keeper.indexes, x)
}

// forerunner returns the running server's index that an index may inherit from, because it is newer than what that answers from, and its
// state without the objects, or nil. s.mu is held.
func (s *source) forerunner(x *index.Index, before []*source) (*index.Index, *statefile.State) {
	f, ok := s.feed.(identified)
	if !ok || len(s.unread) == 0 {
		return nil, nil
	}
	for _, old := range before {
		of, ok := old.feed.(identified)
		if !ok || old == s || f.identity().Server != of.identity().Server || f.identity().Differs(of.identity()) != "" {
			continue
		}
		for _, y := range old.indexes {
			known := y.Snapshot()
			if known == nil {
				continue
			}
			past := &statefile.State{Known: old.lastContact(), Cluster: of.identity(), Namespaces: y.Namespaces()}
			if known.Stale() {
				past.Known = known.Known()
			}
			earlier := x.Snapshot()
			if past.Covers(x.Namespaces()) && (earlier == nil || past.Known.After(earlier.Known())) && (!s.keeps(x) || s.keeper.usable(past) == nil) {
				return y, past
			}
		}
	}
	return nil, nil
}

// has reports whether objects of a kind are known: to the source, or to an earlier state that an index answers from or may inherit.
func (s *source) has(kind index.Kind) bool {
	before := running() // which takes s.mu, too
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.indexes, func(x *index.Index) bool {
		y, _ := s.forerunner(x, before)
		return holds(x, kind) || y != nil && holds(y, kind)
	})
}

// holds reports whether an index has objects of a kind, in what it answers from.
func holds(x *index.Index, kind index.Kind) bool {
	if known := x.Snapshot(); known == nil || !known.Stale() {
		return x.Count(kind) > 0
	}
	return slices.ContainsFunc(x.Objects(), func(o index.Object) bool { return o.Kind() == kind })
}

// close stops the feed and waits until its goroutines are gone.
func (s *source) close() {
	s.mu.Lock()
	cancel, done := s.cancel, s.done
	s.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	<-done
	if s.keeper != nil {
		s.keeper.handOver(running())
	}
}

// put passes an object on. It removes an object that can't be served, which is nil.
func (s *source) put(kind index.Kind, id index.ObjectID, o index.Object, errs field.ErrorList) {
	s.report(kind, id, errs)
	for _, x := range s.indexes {
		if o == nil {
			x.Delete(kind, id)
		} else {
			x.Put(o)
		}
	}
	s.gauge(kind)
}

func (s *source) delete(kind index.Kind, id index.ObjectID) {
	for _, x := range s.indexes {
		x.Delete(kind, id)
	}
	s.gauge(kind)
}

// replace replaces all objects of a kind.
func (s *source) replace(kind index.Kind, objects []index.Object) {
	for _, x := range s.indexes {
		x.Replace(kind, objects)
	}
	s.read(kind)
	s.gauge(kind)
}

// read marks a kind as read, even if it has no objects. Queries are answered once all kinds have been read.
func (s *source) read(kind index.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unread[kind] {
		return
	}
	delete(s.unread, kind)
	if len(s.unread) > 0 {
		return
	}
	for _, x := range s.indexes {
		if past := x.Snapshot(); past != nil && past.Stale() {
			staleGauge.WithLabelValues(s.label).Set(0)
		}
		x.Publish()
	}
	if s.keeper != nil {
		s.keeper.synced()
	}
	close(s.synced)
}

// reachable records whether the objects of a kind are currently being watched.
func (s *source) reachable(kind index.Kind, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched[kind] = yes
	s.showWatched(kind)
	// A Reachability is optional (watchedKinds): without one the state is no less right.
	if slices.ContainsFunc(index.Kinds[:], func(k index.Kind) bool { return k != index.KindReachability && !s.watched[k] }) {
		s.lostAt.CompareAndSwap(0, time.Now().Unix())
	} else {
		s.lostAt.Store(0)
	}
}

// lastContact returns when the objects were last known to be those of the API server: now, unless that is away.
func (s *source) lastContact() time.Time {
	if lost := s.lostAt.Load(); lost != 0 {
		return time.Unix(lost, 0)
	}
	return time.Now()
}

// failed counts and logs a failed read.
func (s *source) failed(kind index.Kind, err error) {
	errorsTotal.WithLabelValues(s.label, kind.String()).Inc()
	log.Warningf("%s: %s: %v", s.label, kind, err)
}

// maxLogged limits the length of text that comes from objects, to keep log lines readable.
const maxLogged = 1000

// report counts and logs an object with fields that can't be served. Many such objects don't flood the log.
func (s *source) report(kind index.Kind, id index.ObjectID, errs field.ErrorList) {
	if len(errs) == 0 {
		return
	}
	invalidTotal.WithLabelValues(s.label, kind.String()).Inc()
	s.invalid.Do(func() {
		log.Warningf("%s: %s %.253q: %s", s.label, kind, id.Namespace+"/"+id.Name, text.Truncate(errs.ToAggregate().Error(), maxLogged))
	})
}
