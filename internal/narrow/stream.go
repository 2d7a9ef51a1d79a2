package narrow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// retryAfter is the pause before a peer's namespace is tried again, at first and at most. Rights to a new peer's
	// namespace appear shortly after its MemberCluster.
	retryAfter, retryMost = time.Second, 30 * time.Second
	// patience is how long to wait for the other namespaces' initial events after this cluster's own have arrived.
	patience = 10 * time.Second
)

// errSpoiled ends a stream whose reader must list again.
var errSpoiled = errors.New("the reader has to list again")

// stream combines the watches of the peers' namespaces into one, event by event. It begins and ends with the watch of this
// cluster's own namespace, whose refusals, errors and end count for all. The others are opened and reopened independently: a
// forbidden or slow namespace doesn't delay the rest.
//
// Each namespace has one goroutine with one event in memory. It continues when the reader has taken the event.
type stream struct {
	next      http.RoundTripper
	selection *Selection
	list      *list
	request   *http.Request
	initial   bool   // it begins with all records, and marks the end of those
	cancel    func() // ends it
	to        *io.PipeWriter

	mu      sync.Mutex      // held while an event is written
	awaited map[string]bool // namespaces whose initial events are incomplete
	came    bool            // at least one initial event arrived
	end     []byte          // the end of the initial events, from this cluster's own namespace, kept until no namespace is awaited
	plain   bool            // the hub doesn't mark the end of the initial events
}

// watchPeers replies with a stream.
func (t *transport) watchPeers(r *http.Request, l *list) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	s := &stream{
		next: t.next, selection: t.selection, list: l, request: r.WithContext(ctx), cancel: cancel,
		initial: r.URL.Query().Get("sendInitialEvents") == "true", awaited: map[string]bool{},
	}
	own := l.peers[0]
	query := s.goOn(own, true)
	if query == nil {
		cancel()
		return expired(r)
	}
	first, err := s.next.RoundTrip(inNamespace(s.request, own, query))
	if err != nil || first.StatusCode != http.StatusOK {
		context.AfterFunc(r.Context(), cancel) // the reply's body is read after this function returns
		return first, err
	}
	if err := isJSON(first); err != nil {
		cancel()
		_ = first.Body.Close()
		return nil, err
	}
	var from *io.PipeReader
	from, s.to = io.Pipe()
	go s.run(ctx, first.Body)
	merged := *first
	merged.ContentLength, merged.Body = -1, &reading{PipeReader: from, stream: s}
	return &merged, nil
}

// reading is the reader's end of a stream.
type reading struct {
	*io.PipeReader
	stream *stream
	ended  atomic.Bool // the reader has reached the end
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	n, err := r.PipeReader.Read(p)
	if err != nil {
		r.ended.Store(true)
	}
	return n, err
}

// Close implements io.Closer. A reader that closes before the end may have missed events, so it must list again.
func (r *reading) Close() error {
	if !r.ended.Load() {
		r.stream.selection.spoil(r.stream.list)
	}
	r.stream.cancel()
	return r.PipeReader.Close()
}

func (s *stream) run(ctx context.Context, own io.ReadCloser) {
	if s.initial {
		for _, namespace := range s.list.peers {
			s.awaited[namespace] = true
		}
	}
	var others sync.WaitGroup
	for _, namespace := range s.list.peers[1:] {
		others.Go(func() { s.follow(ctx, namespace) })
	}
	others.Go(func() { s.waitNoLonger(ctx) })
	err := s.copy(s.list.peers[0], own)
	if ctx.Err() != nil { // the reader or expire ended it, not the hub; the reader may not have handled all that it read
		s.selection.spoil(s.list)
	}
	s.cancel()
	others.Wait() // so that each place records exactly what the reader has
	if s.selection.spoiled(s.list) {
		err = io.EOF // after any other error the informer would wait
	}
	_ = s.to.CloseWithError(err)
}

// waitNoLonger ends the initial events without the namespaces that have sent none for too long.
func (s *stream) waitNoLonger(ctx context.Context) {
	for s.initial && sleep(ctx, patience) == nil {
		s.mu.Lock()
		if !s.came {
			for _, namespace := range s.list.peers[1:] {
				delete(s.awaited, namespace)
			}
			_ = s.settled() // the next write fails as well
		}
		s.came = false
		waiting := len(s.awaited) > 0
		s.mu.Unlock()
		if !waiting {
			return
		}
	}
}

// follow watches a peer's namespace until ctx ends.
func (s *stream) follow(ctx context.Context, namespace string) {
	pause := retryAfter
	for first := true; ; first = false {
		query := s.goOn(namespace, first)
		if query == nil {
			s.expire()
			return
		}
		began := time.Now()
		err := s.watch(namespace, query)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		delete(s.awaited, namespace)
		closed := s.settled()
		s.mu.Unlock()
		if closed != nil {
			return
		}
		if time.Since(began) > retryMost {
			pause = retryAfter
		}
		if sleep(ctx, pause+rand.N(pause/2)) != nil {
			return
		}
		if errors.Is(err, errSpoiled) {
			s.expire()
			return
		}
		pause = min(2*pause, retryMost)
	}
}

// expire ends the stream so that the reader lists again.
func (s *stream) expire() {
	s.selection.spoil(s.list)
	s.cancel()
}

// goOn returns the query of a namespace's next watch, which continues where the last one ended; nil if it can't.
func (s *stream) goOn(namespace string, first bool) url.Values {
	query := s.request.URL.Query()
	version, ok := s.selection.from(s.list, namespace)
	if !ok {
		return nil
	}
	s.mu.Lock()
	plain := s.plain
	s.mu.Unlock()
	query.Set("allowWatchBookmarks", "true")
	switch {
	case first && s.initial: // as the reader asked
	case version != "":
		query.Set("resourceVersion", version)
		query.Del("sendInitialEvents")
		query.Del("resourceVersionMatch")
	case plain: // the hub also begins with all records, and its next bookmark follows them
		query.Del("resourceVersion")
		query.Del("sendInitialEvents")
		query.Del("resourceVersionMatch")
	default:
		query.Del("resourceVersion")
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	}
	return query
}

// watch passes on a namespace's events until its watch ends.
func (s *stream) watch(namespace string, query url.Values) error {
	reply, err := s.next.RoundTrip(inNamespace(s.request, namespace, query))
	if err != nil {
		return err
	}
	if reply.StatusCode == http.StatusOK {
		if err := isJSON(reply); err != nil {
			_ = reply.Body.Close()
			return err
		}
		return s.copy(namespace, reply.Body)
	}
	_ = reply.Body.Close()
	status := reply.StatusCode
	switch {
	case status == http.StatusGone:
		return errSpoiled
	case (status == http.StatusBadRequest || status == http.StatusUnprocessableEntity) && query.Get("sendInitialEvents") != "":
		s.mu.Lock()
		s.plain = true
		s.mu.Unlock()
		return s.watch(namespace, s.goOn(namespace, false)) // no event has been passed on
	}
	return fmt.Errorf("watch %s: %s", namespace, reply.Status)
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
