// Package narrow reduces the hub's records that a member receives to those that it needs and may read: records of services
// in namespaces that it imports, from clusters that it shares a community with. It is a transport between the agent's caches
// and the hub's API server. It adds a label selector to lists and watches of all namespaces. In a set with communities it
// also splits each of them into one request per peer's namespace, and combines the replies.
//
// A cache can't change its selector. So when the selection changes, the transport ends open watches and answers the next
// ones once with "expired" (410). Each cache then lists again with the new selection, and keeps its old content until the
// new list is complete.
package narrow

import (
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

// MaxNamespaces is how many namespaces are selected by name. A member with more watches everything: the selector is part of
// the request's URL, and the API server evaluates it for every record.
const MaxNamespaces = 100

// Selection selects the hub's records that a member receives.
type Selection struct {
	mu       sync.Mutex
	selector string   // "" is everything
	peers    []string // the namespaces on the hub to read, this cluster's first; nil: all, in one request
	said     said
	version  int
	known    chan struct{}       // closed once Set and See have been called
	lists    map[string]*list    // the last list, by path
	watches  map[*watched]func() // open ones
}

// said records which of Set and See have been called.
type said struct{ selector, peers bool }

// list is the selection of a kind's last list, and how far the kind has been read since.
type list struct {
	selector string
	peers    []string
	version  int
	places   map[string]*place // by namespace, where there are peers
	broken   bool              // the reader missed events, so it must list again
}

type watched struct{ io.ReadCloser }

// NewSelection returns a Selection that delays every list until Set and See have been called.
func NewSelection() *Selection {
	return &Selection{known: make(chan struct{}), lists: map[string]*list{}, watches: map[*watched]func(){}}
}

// Set selects the records of services in these namespaces, or all if there are more than MaxNamespaces or namespaces is nil.
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
	if s.said.selector && selector == s.selector {
		return
	}
	s.said.selector, s.selector = true, selector
	s.changed()
}

// See selects the records of these clusters, the member's own first. Nil selects all clusters, in one request for each kind.
func (s *Selection) See(clusters []string) {
	var peers []string
	for _, cluster := range clusters {
		peers = append(peers, api.MemberNamespace(cluster))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said.peers && slices.Equal(peers, s.peers) {
		return
	}
	s.said.peers, s.peers = true, peers
	s.changed()
}

func (s *Selection) changed() {
	if !s.said.selector || !s.said.peers {
		return
	}
	if s.version == 0 {
		close(s.known)
	}
	s.version++
	for _, end := range s.watches {
		end()
	}
}

// Wrap wraps the transport of the hub's rest.Config.
func (s *Selection) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{s, next} }

type transport struct {
	selection *Selection
	next      http.RoundTripper
}

// WrappedRoundTripper gives client-go the wrapped transport, so that it can close its idle connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

const group = "/apis/" + clustersetv1alpha1.GroupName + "/v1alpha1/"

// RoundTrip implements http.RoundTripper, which must not change its request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	_, kind, ours := strings.Cut(r.URL.Path, group)
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
		l := t.selection.list(r.URL.Path, query)
		narrowed := with(r.Context(), r, query, l.selector)
		if l.peers != nil {
			return t.listPeers(narrowed, l)
		}
		return t.next.RoundTrip(narrowed)
	}
	ctx, end := context.WithCancel(r.Context())
	w := &watched{}
	l := t.selection.watch(r.URL.Path, query, w, end)
	if l == nil {
		end()
		return expired(r)
	}
	watch := t.next.RoundTrip
	if l.peers != nil {
		watch = func(r *http.Request) (*http.Response, error) { return t.watchPeers(r, l) }
	}
	response, err := watch(with(ctx, r, query, l.selector))
	if err != nil {
		t.selection.ended(w, end)
		return response, err
	}
	w.ReadCloser = response.Body
	response.Body = &body{w, func() bool { return ctx.Err() != nil && r.Context().Err() == nil }, func() { t.selection.ended(w, end) }}
	return response, nil
}

// list returns what a list selects. Further pages use the first page's selection.
func (s *Selection) list(path string, query url.Values) *list {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists[path] == nil || query.Get("continue") == "" {
		s.lists[path] = s.newList()
	}
	return s.lists[path]
}

func (s *Selection) newList() *list {
	l := &list{selector: s.selector, peers: s.peers, version: s.version, places: map[string]*place{}}
	for _, namespace := range s.peers {
		l.places[namespace] = &place{}
	}
	return l
}

// watch registers a watch and returns what it selects. It returns nil if the watch would continue a list of another
// selection, or if its reader missed events.
func (s *Selection) watch(path string, query url.Values, w *watched, end func()) *list {
	s.mu.Lock()
	defer s.mu.Unlock()
	if query.Get("sendInitialEvents") == "true" { // it also lists
		s.lists[path] = s.newList()
	}
	l := s.lists[path]
	if l == nil || l.version != s.version || l.broken {
		return nil
	}
	s.watches[w] = end
	return l
}

func (s *Selection) ended(w *watched, end func()) {
	s.mu.Lock()
	delete(s.watches, w)
	s.mu.Unlock()
	end()
}

// body is a watch's body. It reports the watch's end.
type body struct {
	io.ReadCloser
	over  func() bool // whether the selection has changed
	ended func()
}

// Read implements io.Reader. A watch that ends because the selection has changed returns io.EOF: after any other error the
// informer would wait.
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

// expired is an API server's response to a watch that can't continue and must begin with a list.
func expired(r *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired("other namespaces or clusters are imported now").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	content, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return reply(r, http.StatusGone, content), nil
}
