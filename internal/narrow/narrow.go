// Package narrow keeps from a member what it has no use for: records on the hub of services in namespaces that it doesn't import. It
// stands between the agent's caches and the hub's API server, as a transport that adds a label selector to their lists and watches.
//
// Caches can't change what they select. So when the selection changes, open watches end and are refused once with "expired" (410),
// which has each cache list anew, under the new selection, and take that over when it is complete. Until then it has what it had.
package narrow

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/clusterset/clusterset/api"
	clustersetv1alpha1 "github.com/clusterset/clusterset/api/clusterset/v1alpha1"
)

// MaxNamespaces is how many namespaces are selected by name. Of more a member watches everything: the selector is a part of the
// request's address, and the API server compares it with every record.
const MaxNamespaces = 100

// Selection is what of the hub's records reaches a member.
type Selection struct {
	mu       sync.Mutex
	selector string // "" is everything
	version  int
	known    chan struct{}       // closed once it has been said
	lists    map[string]list     // the last list, by path
	watches  map[*watched]func() // open ones
}

type list struct {
	selector string
	version  int
}

type watched struct{ io.ReadCloser }

// NewSelection returns one that holds up every list until Set has been called.
func NewSelection() *Selection {
	return &Selection{known: make(chan struct{}), lists: map[string]list{}, watches: map[*watched]func(){}}
}

// Set selects the records of services in these namespaces; all, where these are nil or more than MaxNamespaces.
func (s *Selection) Set(namespaces []string) {
	selector := ""
	if namespaces != nil && len(namespaces) <= MaxNamespaces {
		names := slices.Sorted(slices.Values(namespaces))
		if len(names) == 0 {
			names = []string{"-"} // a value that no namespace has
		}
		selector = api.LabelExportedNamespace + " in (" + strings.Join(names, ",") + ")"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version > 0 && selector == s.selector {
		return
	}
	if s.version == 0 {
		close(s.known)
	}
	s.selector = selector
	s.version++
	for _, end := range s.watches {
		end()
	}
}

// Wrap is for the hub's rest.Config.
func (s *Selection) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{s, next} }

type transport struct {
	selection *Selection
	next      http.RoundTripper
}

// WrappedRoundTripper lets client-go find the transport below, to close its idle connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

const group = "/apis/" + clustersetv1alpha1.GroupName + "/v1alpha1/"

// RoundTrip implements http.RoundTripper, which must not change the request it is given.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, ours := strings.CutPrefix(r.URL.Path, group)
	if !ours || r.Method != http.MethodGet || kind != "exportedservices" && kind != "exportedendpoints" {
		return t.next.RoundTrip(r)
	}
	select {
	case <-t.selection.known:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	query := r.URL.Query()
	if query.Get("watch") == "" {
		return t.next.RoundTrip(with(r.Context(), r, query, t.selection.list(r.URL.Path, query)))
	}
	ctx, end := context.WithCancel(r.Context())
	w := &watched{}
	selector, ok := t.selection.watch(r.URL.Path, query, w, end)
	if !ok {
		end()
		return expired(r)
	}
	response, err := t.next.RoundTrip(with(ctx, r, query, selector))
	if err != nil {
		t.selection.ended(w, end)
		return response, err
	}
	w.ReadCloser = response.Body
	response.Body = &body{w, func() bool { return ctx.Err() != nil && r.Context().Err() == nil }, func() { t.selection.ended(w, end) }}
	return response, nil
}

// list returns the selector of a list; of its further pages that of the first.
func (s *Selection) list(path string, query url.Values) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if query.Get("continue") == "" {
		s.lists[path] = list{s.selector, s.version}
	}
	return s.lists[path].selector
}

// watch takes up a watch, unless it goes on where a list under another selection ended.
func (s *Selection) watch(path string, query url.Values, w *watched, end func()) (selector string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if query.Get("sendInitialEvents") == "true" { // it lists, too
		s.lists[path] = list{s.selector, s.version}
	}
	if s.lists[path].version != s.version {
		return "", false
	}
	s.watches[w] = end
	return s.selector, true
}

func (s *Selection) ended(w *watched, end func()) {
	s.mu.Lock()
	delete(s.watches, w)
	s.mu.Unlock()
	end()
}

// body is a watch's, whose end is noted.
type body struct {
	io.ReadCloser
	over  func() bool // whether the selection has changed
	ended func()
}

// Read implements io.Reader. What ends because the selection has changed has come to its end: after an error the informer would wait.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.over() {
		err = io.EOF
	}
	return n, err
}

func (b *body) Close() error {
	b.ended()
	return b.ReadCloser.Close()
}

func with(ctx context.Context, r *http.Request, query url.Values, selector string) *http.Request {
	r = r.Clone(ctx)
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	r.URL.RawQuery = query.Encode()
	return r
}

// expired is how an API server says that a watch can't go on, and is to begin with a list.
func expired(r *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired("other namespaces are imported now").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	content, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(content)), Body: io.NopCloser(bytes.NewReader(content)),
	}, nil
}
