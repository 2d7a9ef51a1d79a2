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

// API is a proxy for a Kubernetes API server that treats requests as overloaded API servers, load balancers and networks
// do. Its methods are safe for concurrent use.
type API struct {
	server  *httptest.Server
	forward *httputil.ReverseProxy

	mu      sync.Mutex
	fault   http.HandlerFunc // if set, answers instead of the API server
	edit    func(*http.Request)
	faults  int // how many requests for objects the fault has answered
	streams map[*watchStream]bool
	gone    chan struct{} // closed and replaced to end the requests that a fault holds up
}

// NewAPI starts a proxy for the API server of a client configuration. It uses the configuration's credentials, and passes
// on the clients' bearer tokens. With a certificate it serves HTTPS and HTTP/2, as an API server does; without one, plain
// HTTP. The caller must close it.
func NewAPI(config *rest.Config, certificate *tls.Certificate) (*API, error) {
	transport, err := rest.TransportFor(config)
	target, err2 := url.Parse(config.Host)
	if err := errors.Join(err, err2); err != nil {
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
		FlushInterval:  -1, // forward each event at once
		ModifyResponse: p.holdStream,
		ErrorLog:       log.New(io.Discard, "", 0), // it would report the streams that a fault breaks
		// If the API server can't be reached, the connection breaks without an answer.
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

// URL returns the URL of the proxy.
func (p *API) URL() string { return p.server.URL }

// Addr returns the address of the proxy, "127.0.0.1:port".
func (p *API) Addr() string { return p.server.Listener.Addr().String() }

// Close ends the proxy and the requests in it.
func (p *API) Close() {
	p.Begin(Status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)) // otherwise a leaked watch would hold up Close
	_ = p.End(nil)
	p.server.CloseClientConnections()
	p.server.Close()
}

// ServeHTTP implements http.Handler.
func (p *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	if fault != nil && strings.HasPrefix(r.URL.Path, "/api") {
		p.faults++
	}
	p.mu.Unlock()
	if fault == nil {
		fault = p.forward.ServeHTTP
	}
	fault(w, r)
}

// Begin makes the fault answer every request. Nil ends the current fault.
func (p *API) Begin(fault http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.faults = fault, 0
	close(p.gone)
	p.gone = make(chan struct{})
}

// Edit sets a function that changes each request on its way to the API server. Nil removes it.
func (p *API) Edit(edit func(*http.Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edit = edit
}

// Silence is a fault: requests are accepted but not answered, until the next Begin breaks them off.
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

// Faulted returns how many requests for objects the fault has answered since Begin.
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

// End ends all current watches. Each gets a last piece of its stream, if last returns one for its media type. Then the
// stream ends with the error of last, or properly without one. End returns the errors of last other than
// io.ErrUnexpectedEOF.
func (p *API) End(last func(mediaType string) ([]byte, error)) (errs error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.streams {
		delete(p.streams, s)
		var piece []byte
		var err error
		if last != nil {
			piece, err = last(s.mediaType)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			errs = errors.Join(errs, err)
		}
		go func() { // the client may be slow to read
			_, _ = s.out.Write(piece)
			s.out.CloseWithError(err) // nil becomes io.EOF
			_ = s.upstream.Close()
		}()
	}
	return errs
}

// watchStream is a watch under way.
type watchStream struct {
	resource, mediaType string
	upstream            io.ReadCloser
	out                 *io.PipeWriter
}

// holdStream puts a pipe into a watch, so that End can end it.
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
