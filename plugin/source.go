package clusterset

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/clusterset/clusterset/internal/index"
)

var errNotReady = errors.New("waiting for the first sync")

// feed reads objects from somewhere and tells a source of them, until its context ends.
type feed interface {
	// name is a word for logs and metric labels.
	name() string
	run(ctx context.Context, s *source)
}

// source passes what a feed reads on to the indexes of all server blocks that share it, and knows when each kind has been
// read once. It owns the feed's goroutines: nothing outlives close, so that a CoreDNS reload leaves nothing behind.
type source struct {
	feed     feed
	corefile *sources
	label    string // in metrics and logs
	indexes  []*index.Index
	keeper   *keeper // nil where no stanza has the snapshot option
	notify   []*notifier
	synced   chan struct{}

	mu      sync.Mutex
	unread  map[index.Kind]bool
	watched map[index.Kind]bool // at this moment
	cancel  context.CancelFunc
	// startedAt is written once, by start, and read after it.
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

// start runs the feed. Later calls do nothing: each server block that shares the source makes one.
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
	for _, x := range s.indexes {
		x.Resume(highestSerial(before))
	}
	if s.keeper != nil {
		s.keeper.takeOver(before)
	}
	s.showMetrics() // not before: of a reload that fails until here the running server's metrics know nothing
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

// highestSerial is the highest that the sources' servers have given out: the one that takes their place goes on from there.
func highestSerial(all []*source) uint32 {
	var highest uint32
	for _, s := range all {
		for _, x := range s.indexes {
			if snapshot := x.Snapshot(); snapshot != nil {
				highest = max(highest, snapshot.Serial())
			}
		}
	}
	return highest
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

// put passes an object on; nil for one that can't be served removes it.
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

// replace makes objects all there are of a kind.
func (s *source) replace(kind index.Kind, objects []index.Object) {
	for _, x := range s.indexes {
		x.Replace(kind, objects)
	}
	s.read(kind)
	s.gauge(kind)
}

// read marks a kind as known, if only as having no objects. With the last kind, queries begin to be answered.
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
		x.Publish()
	}
	if s.keeper != nil {
		s.keeper.synced()
	}
	close(s.synced)
}

// reachable says whether the objects of a kind are being watched at this moment.
func (s *source) reachable(kind index.Kind, yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watched[kind] = yes
	s.showWatched(kind)
	if s.keeper != nil {
		s.keeper.reachable(!slices.ContainsFunc(index.Kinds[:], func(k index.Kind) bool { return !s.watched[k] }))
	}
}

// failed counts a failed read and says so.
func (s *source) failed(kind index.Kind, err error) {
	errorsTotal.WithLabelValues(s.label, kind.String()).Inc()
	log.Warningf("%s: %s: %v", s.label, kind, err)
}

// shortened keeps a line of the log readable, whoever wrote what it is about.
func shortened(text string) string {
	const limit = 1000
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// report counts an object with fields that can't be served and says which. A flood of such objects is not one of log lines.
func (s *source) report(kind index.Kind, id index.ObjectID, errs field.ErrorList) {
	if len(errs) == 0 {
		return
	}
	invalidTotal.WithLabelValues(s.label, kind.String()).Inc()
	s.invalid.Do(func() {
		log.Warningf("%s: %s %.253q: %s", s.label, kind, id.Namespace+"/"+id.Name, shortened(errs.ToAggregate().Error()))
	})
}
