package console

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
	"github.com/clusterset/clusterset/cli/preview"
	"github.com/clusterset/clusterset/cli/view"
)

// Options are the settings of a Server.
type Options struct {
	// Preview has the agents' and servers' settings, which the hub doesn't know.
	Preview preview.Options
	// Flags are the flags that it was started with, for the commands that the page shows.
	Flags map[string]string
	// Records reads the records of an export that is to be previewed, in the export's Context.
	Records func(ctx context.Context, e *preview.Export) (notes []string, err error)
}

// Server is the console. Create it with New.
type Server struct {
	options Options
	guard   guard

	mu  sync.Mutex
	now shown

	lastWhatIf memory[*WhatIf]
	lastFlows  memory[map[pair]Link]
}

// shown is what is shown at one time. What it points to is immutable, and replaced when it changes.
type shown struct {
	set     *set
	hub     *view.HubFacts
	sources []*Source // the first is the hub, or the files in its place
}

// New returns a Server that knows nothing yet.
func New(o Options) *Server {
	s := &Server{options: o, guard: newGuard()}
	s.SetRecords(nil)
	return s
}

func (s *Server) current() shown {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// SetRecords replaces the hub by objects of files.
func (s *Server) SetRecords(objects []runtime.Object) {
	hub := &view.HubFacts{Heard: map[string]view.Heartbeat{}}
	var endpoints []clustersetv1alpha1.ExportedEndpoints
	for _, o := range objects {
		switch o := o.(type) {
		case *clustersetv1alpha1.MemberCluster:
			hub.Members = append(hub.Members, *o)
		case *clustersetv1alpha1.ExportedService:
			if o.Exports() {
				hub.Exports = append(hub.Exports, *o)
			}
		case *clustersetv1alpha1.ExportedEndpoints:
			endpoints = append(endpoints, *o)
		case *clustersetv1alpha1.MemberReport:
			if cluster, ok := api.ClusterOfNamespace(o.Namespace); ok {
				hub.Heard[cluster] = view.Heartbeat{CantReach: api.ClusterNames(o.Spec.Unreachable)}
			}
		}
	}
	hub.Know(endpoints)
	s.SetHub(hub)
}

// SetHub replaces what is known of the hub. Only one goroutine may call it. If its records are the same, so is the set, and what was computed
// of it stays.
func (s *Server) SetHub(hub *view.HubFacts) {
	is := s.current().set
	if is == nil || !is.same(hub) {
		is = newSet(hub)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.set, s.now.hub = is, hub
}

// AddSource adds a source, and returns what changes it.
func (s *Server) AddSource(o Source) func(change func(*Source)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := len(s.now.sources)
	s.now.sources = append(slices.Clone(s.now.sources), &o)
	return func(change func(*Source)) {
		s.mu.Lock()
		defer s.mu.Unlock()
		next := *s.now.sources[number]
		change(&next)
		s.now.sources = slices.Clone(s.now.sources)
		s.now.sources[number] = &next
	}
}

// Handler returns the handler of a console at an address, host:port.
func (s *Server) Handler(address string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", files())
	for path, answer := range map[string]http.HandlerFunc{
		"map": data(s.clusters), "services": data(s.services), "problems": data(s.problems), "service": data(s.service), "endpoints": data(s.endpoints),
		"whatif": data(s.whatIf), "links": data(s.links),
	} {
		mux.HandleFunc("GET /api/"+path, answer)
	}
	return s.guard.protect(address, mux)
}

// Serve serves the console until the context is done.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.Handler(l.Addr().String()), ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the console: %w", err)
	}
	return nil
}

// data returns a handler that writes a value as JSON.
func data[T any](value func(ctx context.Context, q url.Values) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		v, err := value(r.Context(), r.URL.Query())
		var body any = v
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			body = map[string]string{"error": err.Error()}
		}
		_ = json.NewEncoder(w).Encode(body) // it fails if the page has gone
	}
}

//go:embed web
var web embed.FS

// files serves the page's files.
func files() http.Handler {
	root, err := fs.Sub(web, "web")
	if err == nil {
		err = mime.AddExtensionType(".js", "text/javascript; charset=utf-8") // with a machine's own, other type the page wouldn't start
	}
	utilruntime.Must(err)
	return http.FileServerFS(root)
}
