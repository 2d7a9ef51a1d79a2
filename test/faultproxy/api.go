package faultproxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// API stands in front of a Kubernetes API server and does to requests what API servers under stress, load balancers and
// networks do to them. Its methods are safe for concurrent use.
type API struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy

	mu      sync.Mutex
	fault   http.HandlerFunc // answers instead of the API server, where it is set
	edit    func(*http.Request)
	faults  int // how many requests it answered
	streams map[*watchStream]bool
	gone    chan struct{} // closed, and replaced, when what a fault holds up is to end
}

// NewAPI starts a proxy for the API server of a client configuration, as whom it asks; what clients bring along as bearer
// tokens goes through. With a certificate it serves HTTPS and HTTP/2 as an API server does, without one plain HTTP. The
// caller must close it.
func NewAPI(config *rest.Config, certificate *tls.Certificate) (*API, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", config.Host, err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("proxy for %s: %w", config.Host, err)
	}
	p := &API{streams: map[*watchStream]bool{}, gone: make(chan struct{})}
	p.forward = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			p.mu.Lock()
			edit := p.edit
			p.mu.Unlock()
			if edit != nil {
				edit(r.Out)
			}
		},
		Transport:      transport,
		FlushInterval:  -1, // each event at once
		ModifyResponse: p.holdStream,
		ErrorLog:       log.New(io.Discard, "", 0), // of the streams that it is told to break
		// An API server that can't be reached says nothing.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(p)
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if certificate == nil {
		p.server.Start()
		return p, nil
	}
	p.server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	p.server.EnableHTTP2 = true
	p.server.StartTLS()
	return p, nil
}

// URL is where the proxy serves.
func (p *API) URL() string { return p.server.URL }

// Addr is where the proxy listens, "127.0.0.1:port".
func (p *API) Addr() string { return p.server.Listener.Addr().String() }

// Close ends the proxy and what goes through it.
func (p *API) Close() {
	p.Begin(Status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)) // or a leaked watch would hold up Close
	_ = p.End(nil)
	p.server.CloseClientConnections()
	p.server.Close()
}

// ServeHTTP implements http.Handler.
func (p *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if fault := p.faultOf(r); fault != nil {
		fault(w, r)
		return
	}
	p.forward.ServeHTTP(w, r)
}

// Begin makes every request get the fault's answer; nil ends that.
func (p *API) Begin(fault http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.faults = fault, 0
	close(p.gone)
	p.gone = make(chan struct{})
}

// Edit changes each request on its way to the API server; nil ends that.
func (p *API) Edit(edit func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edit = edit
}

// Silence is a fault: requests are taken and not answered, until the next Begin breaks them off.
func (p *API) Silence(_ http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	gone := p.gone
	p.mu.Unlock()
	select {
	case <-gone:
		panic(http.ErrAbortHandler)
	case <-r.Context().Done():
	}
}

func (p *API) faultOf(r *http.Request) http.HandlerFunc {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil && strings.HasPrefix(r.URL.Path, "/api") {
		p.faults++
	}
	return p.fault
}

// Faulted says how many requests for objects got the fault's answer since Begin.
func (p *API) Faulted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

// Watched returns the resources that are being watched, one for each watch.
func (p *API) Watched() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var resources []string
	for s := range p.streams {
		resources = append(resources, s.resource)
	}
	return resources
}

// End ends all watches that are under way: each gets a last piece of stream, if there is one for its media type, and then
// the error io.ErrUnexpectedEOF of last, or a proper end. Any other error of last is returned.
func (p *API) End(last func(mediaType string) ([]byte, error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for s := range p.streams {
		delete(p.streams, s)
		var piece []byte
		var err error
		if last != nil {
			if piece, err = last(s.mediaType); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				errs = append(errs, err)
			}
		}
		go func() { // the client may be slow to read
			_, _ = s.out.Write(piece)
			s.out.CloseWithError(err) // nil is io.EOF
			_ = s.upstream.Close()
		}()
	}
	return errors.Join(errs...)
}

// watchStream is a watch under way.
type watchStream struct {
	resource, mediaType string
	upstream            io.ReadCloser
	out                 *io.PipeWriter
}

// holdStream puts a pipe into a watch, so that it can be ended from here.
func (p *API) holdStream(r *http.Response) error {
	query := r.Request.URL.Query()
	if isWatch, _ := strconv.ParseBool(query.Get("watch")); !isWatch || r.StatusCode != http.StatusOK {
		return nil
	}
	in, out := io.Pipe()
	s := &watchStream{filepath.Base(r.Request.URL.Path), r.Header.Get("Content-Type"), r.Body, out}
	p.mu.Lock()
	p.streams[s] = true
	p.mu.Unlock()
	go func() {
		_, err := io.Copy(out, s.upstream)
		out.CloseWithError(err)
		_ = s.upstream.Close()
	}()
	r.Body = &heldStream{in, func() {
		p.mu.Lock()
		delete(p.streams, s)
		p.mu.Unlock()
		_ = s.upstream.Close()
	}}
	return nil
}

type heldStream struct {
	*io.PipeReader
	closed func()
}

func (h *heldStream) Close() error {
	h.closed()
	return h.PipeReader.Close()
}
