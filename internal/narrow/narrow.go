// Package narrow keeps from a member what it has no use for, or no right to: records on the hub of services in namespaces that it doesn't
// import, and of clusters that it shares no community with. It stands between the agent's caches and the hub's API server, as a
// transport that adds a label selector to their lists and watches of all namespaces, and where there are communities makes each of
// them one for each namespace of a peer, whose replies it puts together.
//
// Caches can't change what they select. So when the selection changes, open watches end and are refused once with "expired"
// (410). Each cache then lists again, with the new selection, and switches to the result when it is complete. Until then it has
// what it had.
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

// MaxNamespaces is how many namespaces are selected by name. With more, a member watches everything: the selector is part of
// the request's URL, and the API server evaluates it for every record.
const MaxNamespaces = 100

// Selection is which of the hub's records a member receives.
type Selection struct {
	mu       sync.Mutex
	selector string   // "" is everything
	peers    []string // the namespaces on the hub to read, this cluster's first; nil: everything in one request
	said     said
	version  int
	known    chan struct{}       // closed once both have been said
	lists    map[string]*list    // the last list, by path
	watches  map[*watched]func() // open ones
}

// said is which parts of a Selection have been.
type said struct{ selector, peers bool }

// list is what was selected when a kind was listed, and how far it has been read since.
type list struct {
	selector string
	peers    []string
	version  int
	places   map[string]*place // by namespace, where there are peers
	broken   bool              // the reader doesn't have all that was read, so that it has to list anew
}

type watched struct{ io.ReadCloser }

// NewSelection returns one that holds up every list until Set and See have been called.
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

// See selects the records of these clusters, of which the first is the member's own; those of all, in one request for each kind, where
// they are nil.
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

// WrappedRoundTripper lets client-go find the transport below, to close its idle connections.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

const group = "/apis/" + clustersetv1alpha1.GroupName + "/v1alpha1/"

// RoundTrip implements http.RoundTripper, which must not change the request it is given.
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

// list returns what a list selects; its further pages that of the first.
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

// watch takes up a watch and returns what it selects; nil if it would go on where a list under another selection ended, or one that the
// reader doesn't have all of.
func (s *Selection) watch(path string, query url.Values, w *watched, end func()) *list {
	s.mu.Lock()
	defer s.mu.Unlock()
	if query.Get("sendInitialEvents") == "true" { // it lists, too
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

// body is a watch's body. It records its end.
type body struct {
	io.ReadCloser
	over  func() bool // whether the selection has changed
	ended func()
}

// Read implements io.Reader. A watch that ends because the selection has changed returns io.EOF: after an error the informer
// would wait.
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

// expired is an API server's response if a watch can't continue and must begin with a list.
func expired(r *http.Request) (*http.Response, error) {
	status := apierrors.NewResourceExpired("other namespaces or clusters are imported now").Status()
	status.Kind, status.APIVersion = "Status", "v1"
	content, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	return reply(r, http.StatusGone, content), nil
}
