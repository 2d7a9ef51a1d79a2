package console

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
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
	// Flags are the flags that it was started with, for the commands that the page shows.
	Flags map[string]string
	// Records reads the records of an export that is to be previewed, in a set of several networks or of one, in the export's Context.
	Records func(ctx context.Context, e *preview.Export, networks bool) (notes []string, err error)
}

// Server is the console. Create it with New.
type Server struct {
	options Options
	guard   guard

	mu       sync.Mutex
	now      shown
	known    bool                        // whether records were ever set
	happened map[int]map[string]Happened // see remember
	unread   map[int]error               // why a source's Events can't be read

	work, whole, asking chan struct{} // places for requests of a kind
	// The last answers. Only the request that holds the place asking uses the first, and the place whole the others.
	lastTraffic map[string]*Counted // by context
	lastWhatIf  memory[*WhatIf]
	lastFlows   memory[map[pair]Link]
}

// shown is what is shown at one time. The set and each source are immutable, and replaced when they change.
type shown struct {
	set     *set
	heard   map[string]view.Heartbeat
	process time.Time
	sources []*Source
}

// maxQuery bounds a request's query, and maxHeader its head.
const maxQuery, maxHeader = 12 << 10, 32 << 10

// New returns a Server that knows nothing yet.
func New(o Options) *Server {
	return &Server{
		options: o, guard: newGuard(), now: shown{set: newSet(nil, &set{})}, happened: map[int]map[string]Happened{}, unread: map[int]error{}, lastTraffic: map[string]*Counted{},
		work: make(chan struct{}, runtime.GOMAXPROCS(0)), whole: make(chan struct{}, 1), asking: make(chan struct{}, 1),
	}
}

func (s *Server) current() shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// SetRecords replaces the hub's objects. It reads all of them, so callers shouldn't call it for each change. Only one goroutine may
// call it.
func (s *Server) SetRecords(objects []kruntime.Object) {
	was := s.current().set
	next := newSet(objects, was)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known {
		s.remember(itself, next.changes(was, time.Now())...)
	}
	s.now.set, s.known = next, true
}

// SetHeard replaces the clusters' heartbeats, by cluster, and when the hub process last said that it runs.
func (s *Server) SetHeard(heard map[string]view.Heartbeat, process time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.heard, s.now.process = heard, process
}

// AddSource adds a source, and returns its number.
func (s *Server) AddSource(o Source) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.sources = append(slices.Clone(s.now.sources), &o)
	return len(s.now.sources) - 1
}

// Source returns the source of a number.
func (s *Server) Source(number int) Source { return *s.current().sources[number] }

// ChangeSource changes the source of a number.
func (s *Server) ChangeSource(number int, change func(*Source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.now.sources[number]
	next := *was
	change(&next)
	if next.lost() != was.lost() {
		s.remember(itself, next.changed(time.Now()))
	}
	s.now.sources = slices.Clone(s.now.sources)
	s.now.sources[number] = &next
}

// Handler returns the handler of a console at an address, host:port.
func (s *Server) Handler(address string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", file)
	for path, answer := range map[string]http.HandlerFunc{
		"map": data(s.work, s.clusters), "services": data(s.work, s.services),
		"problems": data(s.work, s.problems), "history": data(s.work, s.history), "service": data(s.work, s.service), "endpoints": data(s.work, s.endpoints),
		"whatif": data(s.whole, s.whatIf), "links": data(s.whole, s.links), "traffic": data(s.asking, s.traffic),
	} {
		mux.HandleFunc("GET /api/"+path, answer)
	}
	return s.guard.protect(address, mux)
}

// Serve serves the console until the context is done.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(l.Addr().String()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
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

// data returns a handler that writes a value as JSON. It waits for one of the places.
func data[T any](places chan struct{}, value func(ctx context.Context, q query) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-r.Context().Done():
			return
		}
		v, err := value(r.Context(), query{r.URL.Query()})
		if r.Context().Err() != nil {
			return // the client has gone
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		var p problem
		switch {
		case errors.As(err, &p):
			w.WriteHeader(p.status)
		case err != nil:
			w.WriteHeader(http.StatusBadGateway) // the error of an API server
		}
		var body any = v
		if err != nil {
			body = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(body) // it fails if the page has gone
	}
}

//go:embed web
var web embed.FS

// contentTypes are the content types of the page's files. The machine's own table isn't used: with another type for .js the page wouldn't
// start.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// file serves the page's files.
func file(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path
	if name == "/" {
		name = "/index.html"
	}
	content, err := web.ReadFile("web" + name)
	kind := contentTypes[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(content)
}
