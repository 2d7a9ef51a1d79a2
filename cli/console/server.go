package console

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// Options are the settings of a Server.
type Options struct {
	// Preview has the agents' and servers' settings, which the hub doesn't know.
	Preview preview.Options
	// Flags are those of the console, for the commands that the page shows.
	Flags Flags
	// Counted reads what the DNS servers of a member have counted, for a context. Nil: there are no members.
	Counted func(ctx context.Context, context string) (*Counted, error)
	// Records fills in the records of an export that is to be previewed, in a set of several networks or of one. Nil: there are no members.
	Records func(ctx context.Context, e *preview.Export, networks bool) (notes []string, err error)
}

// Server is the console. Create it with New.
type Server struct {
	options Options
	guard   guard

	mu sync.Mutex
	// The data that is shown. The set and each source are immutable, and replaced when they change.
	set     *set
	known   bool // whether records were ever set
	heard   map[string]view.Heartbeat
	process time.Time
	sources []*Source
	// happened is what is remembered of each source, by its number, and under itself what the console saw itself.
	happened map[int]*happenings
	seen     int           // how much that was
	changed  chan struct{} // closed and replaced at each change

	changing             sync.Mutex          // held while a source changes
	streams, work, whole chan struct{}       // places for requests of a kind
	asking               chan struct{}       // one place, for lastTraffic
	lastTraffic          map[string]*reading // by context
	// The last answers, which only the requests that hold the place whole use.
	lastWhatIf memory[*WhatIf]
	lastFlows  memory[map[pair]Link]
}

const (
	maxStreams = 16
	// maxQuery bounds a request's query, and maxHeader its head.
	maxQuery, maxHeader = 12 << 10, 32 << 10
)

// New returns a Server that knows nothing yet.
func New(o Options) *Server {
	return &Server{
		options: o, guard: newGuard(), set: newSet(nil, &set{}), changed: make(chan struct{}), happened: map[int]*happenings{},
		streams: make(chan struct{}, maxStreams), work: make(chan struct{}, runtime.GOMAXPROCS(0)), whole: make(chan struct{}, 1),
		asking: make(chan struct{}, 1), lastTraffic: map[string]*reading{},
	}
}

// SetRecords replaces the hub's objects. It reads all of them, so callers shouldn't call it for each change. Only one goroutine may
// call it.
func (s *Server) SetRecords(objects []kruntime.Object) {
	next := newSet(objects, s.current().set)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		s.saw(next.changes(s.set, time.Now())...)
	}
	s.set, s.known = next, true
	s.publish()
}

// SetHeard replaces the clusters' heartbeats, by cluster, and when the hub process last said that it runs.
func (s *Server) SetHeard(heard map[string]view.Heartbeat, process time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard, s.process = heard, process
	s.publish()
}

// AddSource adds a source, and returns its number.
func (s *Server) AddSource(o Source) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = append(slices.Clone(s.sources), &o)
	s.publish()
	return len(s.sources) - 1
}

// Source returns the source of a number.
func (s *Server) Source(number int) Source {
	return *s.current().sources[number]
}

// ChangeSource changes the source of a number. That it answers once more is no news.
func (s *Server) ChangeSource(number int, change func(*Source)) {
	s.changing.Lock() // not mu: it takes a while to compare thousands of objects
	defer s.changing.Unlock()
	was := s.Source(number)
	is := was
	change(&is)
	told := is
	told.LastAnswer = was.LastAnswer
	news := !reflect.DeepEqual(was, told)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sources = slices.Clone(s.sources)
	s.sources[number] = &is
	if news {
		s.saw(is.changes(&was, time.Now())...)
		s.publish()
	}
}

// publish tells the streams about a change. The caller holds the lock.
func (s *Server) publish() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// shown is what is shown at one time.
type shown struct {
	set     *set
	heard   map[string]view.Heartbeat
	process time.Time
	sources []*Source
}

func (s *Server) current() shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return shown{s.set, s.heard, s.process, s.sources}
}

// Handler returns the handler of a console at an address, host:port.
func (s *Server) Handler(address string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/map", s.data(nil, s.clusters))
	mux.HandleFunc("GET /api/services", s.data(nil, s.services))
	mux.HandleFunc("GET /api/problems", s.data(s.work, s.problems))
	mux.HandleFunc("GET /api/history", s.data(s.work, s.history))
	mux.HandleFunc("GET /api/service", s.data(s.work, s.service))
	mux.HandleFunc("GET /api/endpoints", s.data(s.work, s.endpoints))
	mux.HandleFunc("GET /api/whatif", s.data(s.whole, s.whatIf))
	mux.HandleFunc("GET /api/traffic", s.data(s.asking, s.traffic))
	mux.HandleFunc("GET /api/links", s.data(s.whole, s.links))
	mux.HandleFunc("GET /api/links.csv", s.data(s.whole, s.linksTable))
	mux.HandleFunc("GET /api/events", s.events)
	mux.HandleFunc("GET /", file)
	return s.guard.protect(address, mux)
}

// Serve serves the console until the context is done.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(l.Addr().String()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }, // which ends the streams
	}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the console: %w", err)
	}
	return nil
}

// problem is an error with the status of the response.
type problem struct {
	status int
	error
}

func badRequest(format string, a ...any) error {
	return problem{http.StatusBadRequest, fmt.Errorf(format, a...)}
}

// table is a value that is written as CSV.
type table [][]string

// data returns a handler that writes a value, as JSON unless it is a table. It waits for one of the places.
func (s *Server) data(places chan struct{}, value func(ctx context.Context, q query) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.RawQuery)
		if err == nil && places != nil {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
			case <-r.Context().Done():
				return
			}
		}
		var v any
		if err == nil {
			v, err = value(r.Context(), q)
		}
		if r.Context().Err() != nil {
			return // the client has gone
		}
		if t, ok := v.(table); ok && err == nil {
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			w.Header().Set("Content-Disposition", `attachment; filename="links.csv"`)
			_ = csv.NewWriter(w).WriteAll(t) // it fails if the page has gone
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		var p problem
		switch {
		case errors.As(err, &p):
			w.WriteHeader(p.status)
		case err != nil:
			w.WriteHeader(http.StatusBadGateway) // the error of an API server
		}
		if err != nil {
			v = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(v) // it fails if the page has gone
	}
}
