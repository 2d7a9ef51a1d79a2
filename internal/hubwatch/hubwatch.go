// Package hubwatch is an HTTP transport for informers on the hub's API server, in members and in the hub process. client-go's informers
// assume that an API server keeps its history, and back off when it is unreachable. Neither suits a hub.
//
// A hub whose etcd is restored from a backup goes back in time. A watch that resumes from an earlier resource version waits until the
// restored hub reaches that version. It misses everything until then, and never sees the differences between the two histories. So Relist
// makes every informer list everything again. While the hub is unreachable, the transport retries every second or two in place of the
// informers, which could otherwise sleep for up to a minute after the hub is back. For the same reason informers from NewInformer relist
// on their own.
package hubwatch

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// retryAfter is the pause before a watch is retried, plus up to half of it at random, so that a hub that comes back doesn't get all
	// watches of all members at once. Of an agent's watches that fail, one at a time is retried; once it is open, the others follow at once.
	retryAfter = time.Second
	// starting is how long errors are attributed to an API server that is still starting and doesn't know roles, kinds or tokens yet.
	// After that the informer reports the error.
	starting = 30 * time.Second
	// closedFor is how long a watch may be closed before it counts as lost. API servers end every watch after some minutes.
	closedFor = 10 * time.Second
	// betweenLists is the shortest time between two full lists: a hub that refuses watches because it is overloaded must not get a list
	// for each of them.
	betweenLists = 10 * time.Second
	// freshFor is how long a list that was made when the hub came back counts as current.
	freshFor = 10 * time.Second
)

// Watches tracks an agent's watches of one API server. Create it with New.
type Watches struct {
	back chan struct{}

	mu    sync.Mutex
	past  int // number of calls of Relist
	of    map[string]*watched
	retry time.Time     // when the next watch that failed may be retried
	up    chan struct{} // closed when one could be opened
}

// watched is the state of the watches of the same objects.
type watched struct {
	past   int // the past of Watches when they were last listed; if it is lower now, they must be listed again
	open   map[*stream]bool
	closed time.Time // when the last one was
	failed time.Time // when one couldn't be opened
}

// fresh reports whether an open watch recently began with a list, after the hub had been unreachable. An open watch is served by the
// same API server process, and etcd can't be restored while that process runs.
func (of *watched) fresh(s *stream) bool {
	return s.lists && !s.began.Before(of.failed) && time.Since(of.failed) < freshFor
}

// New returns a Watches without any watch.
func New() *Watches {
	return &Watches{back: make(chan struct{}, 1), of: map[string]*watched{}, up: make(chan struct{})}
}

// Wrap puts the Watches into a transport; it is for rest.Config.Wrap.
func (w *Watches) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{w, next} }

// Back receives an element when a watch could be opened again after failures: the hub is back, and may have been restored.
func (w *Watches) Back() <-chan struct{} { return w.back }

// Relist ends all watches and makes all informers list everything again, except those that have just done so because the hub, once it was
// back, didn't know their resource version.
func (w *Watches) Relist() {
	w.mu.Lock()
	var open []*stream
	w.past++
	for _, of := range w.of {
		for s := range of.open {
			if of.fresh(s) {
				of.past = w.past
			} else {
				open = append(open, s)
			}
		}
	}
	w.mu.Unlock()
	for _, s := range open {
		s.relist.Store(true)
		_ = s.Close()
	}
}

// RelistWhenBack calls Relist each time the hub is back, until ctx ends. It is for the hub process, which has no object that would tell it
// whether the hub was restored; etcd can't be restored while its API server runs. Relisting is cheap for a process next to the hub.
// Members, which are many, check their Lease first.
func (w *Watches) RelistWhenBack(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.back:
			w.Relist()
		}
		if sleep(ctx, betweenLists) != nil {
			return nil //nolint:nilerr // it was stopped
		}
	}
}

// Open reports whether all requested watches are open. A watch that has just ended and is about to be reopened counts as open.
func (w *Watches) Open() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, of := range w.of {
		if len(of.open) == 0 && time.Since(of.closed) > closedFor {
			return false
		}
	}
	return len(w.of) > 0
}

type transport struct {
	watches *Watches
	next    http.RoundTripper
}

// WrappedRoundTripper lets client-go find the underlying transport, to close its idle connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	watch := query.Get("watch") == "true" || query.Get("watch") == "1"
	if r.Method != http.MethodGet {
		return t.next.RoundTrip(r)
	}
	key := r.URL.Path + " " + query.Get("labelSelector") + " " + query.Get("fieldSelector")
	goesOn := query.Get("resourceVersion") != "" && query.Get("resourceVersion") != "0"
	past, behind := t.watches.pastOf(key)
	switch {
	case goesOn && behind:
		return gone(r), nil
	case watch:
		return t.open(r, key, past, goesOn)
	}
	reply, err := t.next.RoundTrip(r)
	if err == nil && reply.StatusCode == http.StatusOK && !goesOn {
		t.watches.listed(key, past)
	}
	return reply, err
}

// open opens a watch. It retries as long as the hub can't be reached.
func (t *transport) open(r *http.Request, key string, past int, goesOn bool) (*http.Response, error) {
	s := t.watches.opening(r.Context(), key, !goesOn)
	var answered time.Time
	for failed := false; ; failed = true {
		if failed {
			t.watches.failed(key)
		}
		s.began = time.Now()
		reply, err := t.next.RoundTrip(r.Clone(r.Context()))
		switch {
		case err == nil && reply.StatusCode < http.StatusBadRequest:
			s.ReadCloser = reply.Body
			reply.Body = s
			if failed {
				t.watches.isBack()
			}
			if !t.watches.opened(s, past) {
				_ = s.Close()
				return gone(r), nil
			}
			return reply, nil
		case err == nil && reply.StatusCode == http.StatusGone:
			if failed {
				t.watches.isBack()
			}
			return reply, nil
		case err == nil && (reply.StatusCode == http.StatusBadRequest || reply.StatusCode == http.StatusUnprocessableEntity):
			return reply, nil // an API server without WatchList, as 1.33 and those before 1.32 by default; the informer then lists
		case err == nil && !answered.IsZero() && time.Since(answered) >= starting:
			return reply, nil
		case err == nil && answered.IsZero():
			answered = time.Now()
		}
		if err == nil {
			_ = reply.Body.Close()
		}
		if stopped := t.watches.turn(r.Context()); stopped != nil {
			s.end()
			return nil, errors.Join(stopped, err)
		}
		if _, behind := t.watches.pastOf(key); behind && goesOn { // Relist was called meanwhile
			return gone(r), nil
		}
	}
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

// gone is the response of an API server that no longer has a resource version. The informer then lists.
func gone(r *http.Request) *http.Response {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"the hub has been restored from a backup, so everything must be listed again"}`
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)), ContentLength: int64(len(status)),
	}
}

// pastOf returns what to call the present, and whether the objects were last listed in another.
func (w *Watches) pastOf(key string) (past int, behind bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.of[key]
	return w.past, of != nil && of.past < w.past
}

// listed notes that the objects have been listed by a request that began at the time of past.
func (w *Watches) listed(key string, past int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.of[key]; of != nil {
		of.past = past
	}
}

// opening records that a watch is requested, and whether it begins with a list.
func (w *Watches) opening(ctx context.Context, key string, lists bool) *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[key] == nil {
		w.of[key] = &watched{past: w.past, open: map[*stream]bool{}}
	}
	return &stream{ctx: ctx, watches: w, key: key, lists: lists}
}

// failed records that a watch couldn't be opened.
func (w *Watches) failed(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.of[key]; of != nil {
		of.failed = time.Now()
	}
}

// turn returns when a watch that failed may be retried.
func (w *Watches) turn(ctx context.Context) error {
	w.mu.Lock()
	up, at := w.up, w.retry
	if now := time.Now(); at.Before(now) {
		at = now.Add(retryAfter + rand.N(retryAfter/2))
		w.retry = at
	}
	w.mu.Unlock()
	for {
		timer := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-up:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		w.mu.Lock()
		mine := w.retry.Equal(at)
		if now := time.Now(); mine {
			w.retry = now.Add(retryAfter + rand.N(retryAfter/2))
		}
		at = w.retry
		w.mu.Unlock()
		if mine {
			return nil
		}
	}
}

// isBack signals that the hub answers again.
func (w *Watches) isBack() {
	w.mu.Lock()
	close(w.up)
	w.up = make(chan struct{})
	w.mu.Unlock()
	select {
	case w.back <- struct{}{}:
	default:
	}
}

// opened counts a watch that was requested at the time of past. It returns false if Relist has been called since.
func (w *Watches) opened(s *stream, past int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.of[s.key]
	if of == nil || past < w.past {
		return false
	}
	of.open[s] = true
	if s.lists {
		of.past = past
	}
	return true
}

// stream is the body of an open watch.
type stream struct {
	io.ReadCloser
	ctx     context.Context // of the informer
	watches *Watches
	key     string
	lists   bool // it begins with a list
	began   time.Time
	relist  atomic.Bool // ended by Relist
}

// Read implements io.Reader. A watch that Relist ended returns io.EOF like one that ended normally: after an error the informer would
// wait.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.end()
		if s.relist.Load() {
			err = io.EOF
		}
	}
	return n, err
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.end()
	return s.ReadCloser.Close()
}

// end records that the watch is closed. If its informer has stopped, it is forgotten.
func (s *stream) end() {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	of := s.watches.of[s.key]
	if of == nil {
		return
	}
	if of.open[s] {
		delete(of.open, s)
		of.closed = time.Now()
	}
	if s.ctx.Err() != nil && len(of.open) == 0 {
		delete(s.watches.of, s.key)
	}
}
