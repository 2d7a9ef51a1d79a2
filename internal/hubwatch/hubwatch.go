// Package hubwatch is an HTTP transport under informers of the hub, a member's and those of the hub process. client-go's informers
// trust an API server to be the one it was, and grow patient with one that is away; a hub can be neither.
//
// A hub whose etcd was restored from a backup goes back in time. A watch that goes on from a resource version of before waits for the
// restored hub to reach it and misses all that happens until then, and what differs between the two pasts it never learns.
// Anew has every informer list everything anew. And while the hub is away the transport tries again every second or two in the
// informers' place: they would sleep for up to a minute when it is back. For the same reason watches of NewInformer list anew by
// themselves.
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
	// retryAfter is how long to wait before a watch is tried again, and half as much again at random, so that a hub that
	// comes back doesn't get all watches of all members in one moment.
	retryAfter = time.Second
	// starting is for how long an API server that answers with an error is taken for one that is starting: it doesn't know
	// roles, kinds or tokens yet. After that the error is the informer's to report.
	starting = 30 * time.Second
	// closedFor is how long a watch may be closed until it counts as lost. API servers end each after some minutes.
	closedFor = 10 * time.Second
	// betweenLists is the least time between two lists of everything: a hub that refuses watches because it has too much to do
	// isn't to get more of it for each.
	betweenLists = 10 * time.Second
	// freshFor is for how long a list that was made when the hub came back is known to be of the hub that it is now.
	freshFor = 10 * time.Second
)

// Watches keeps an agent's watches of one API server. It is made with New.
type Watches struct {
	back chan struct{}

	mu   sync.Mutex
	past int // how often Anew was called
	of   map[string]*watched
}

// watched is what is known of the watches of the same objects.
type watched struct {
	past   int // what it was when they were last listed; lower than that of Watches: they have to be listed anew
	open   map[*stream]bool
	closed time.Time // when the last one was
	failed time.Time // when one couldn't be opened
}

// fresh says whether a watch that is open began with a list after the hub had been away, and a moment ago. As long as it is open it is
// served by the same process, and no etcd is restored while that runs.
func (of *watched) fresh(s *stream) bool {
	return s.lists && !s.began.Before(of.failed) && time.Since(of.failed) < freshFor
}

// New returns a Watches that knows of no watch yet.
func New() *Watches {
	return &Watches{back: make(chan struct{}, 1), of: map[string]*watched{}}
}

// Wrap puts the Watches into a transport; it is for rest.Config.Wrap.
func (w *Watches) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{w, next} }

// Back has an element after a watch was opened that couldn't be for a while: the hub is back, and may not be the one it was.
func (w *Watches) Back() <-chan struct{} { return w.back }

// Anew ends all watches and has all informers list everything anew, whatever they know; but for those that have just done so
// because the hub, when it was back, didn't remember where they were.
func (w *Watches) Anew() {
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
		s.anew.Store(true)
		_ = s.Close()
	}
}

// AnewWhenBack calls Anew each time that the hub is back, until ctx ends. It is for the hub process, which has nothing on the hub to
// tell by whether that was set back: no etcd is restored while its API server runs. For a process beside the hub that is cheap. Members,
// of which there are many, look at their Lease first.
func (w *Watches) AnewWhenBack(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.back:
			w.Anew()
		}
		if sleep(ctx, betweenLists) != nil {
			return nil //nolint:nilerr // it was stopped
		}
	}
}

// Open says whether everything is watched that somebody wants to. A watch that has just ended, and is about to be opened again,
// counts.
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

// WrappedRoundTripper lets client-go find the transport below, to close its idle connections.
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

// open opens a watch, however long that takes.
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
		case err == nil && !answered.IsZero() && time.Since(answered) >= starting:
			return reply, nil
		case err == nil && answered.IsZero():
			answered = time.Now()
		}
		if err == nil {
			_ = reply.Body.Close()
		}
		if stopped := sleep(r.Context(), retryAfter+rand.N(retryAfter/2)); stopped != nil {
			s.end()
			return nil, errors.Join(stopped, err)
		}
		if _, behind := t.watches.pastOf(key); behind && goesOn { // Anew was called meanwhile
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

// gone is what an API server answers that doesn't remember a resource version. The informer then asks for what there is.
func gone(r *http.Request) *http.Response {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"the hub has been set back, so that everything is listed anew"}`
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

// opening notes that a watch is asked for, and whether it begins with a list.
func (w *Watches) opening(ctx context.Context, key string, lists bool) *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[key] == nil {
		w.of[key] = &watched{past: w.past, open: map[*stream]bool{}}
	}
	return &stream{ctx: ctx, watches: w, key: key, lists: lists}
}

// failed notes that a watch couldn't be opened.
func (w *Watches) failed(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if of := w.of[key]; of != nil {
		of.failed = time.Now()
	}
}

// isBack says that the hub answers after it didn't.
func (w *Watches) isBack() {
	select {
	case w.back <- struct{}{}:
	default:
	}
}

// opened counts a watch that was asked for at the time of past. It returns false where that is not the present any more.
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
	anew    atomic.Bool // ended by Anew
}

// Read implements io.Reader. A watch that Anew has ended ends as one that has come to its end: after an error the informer would wait.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.end()
		if s.anew.Load() {
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

// end notes that the watch is closed. With its informer it is forgotten.
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
