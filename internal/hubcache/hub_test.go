package hubcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	services  = "exportedservices"
	endpoints = "exportedendpoints"
	members   = "memberclusters"
)

var kindNames = map[string]string{services: "ExportedService", endpoints: "ExportedEndpoints", members: "MemberCluster"}

// object identifies an object on the hub.
type object struct{ resource, namespace, name string }

// aHub is an API server. It keeps all changes since its last compaction. It is also a transport.
type aHub struct {
	mu        sync.Mutex
	noStreams bool // it doesn't support watches that begin with a list
	status    int  // that it answers with; 0: it works; -1: it can't be reached
	every     int  // it answers one request of so many in spite of its status; 0: none
	limit     int  // of a page, if less than what the client wants
	stale     bool // a list that needn't be consistent is answered from long ago, with nothing
	version   int
	oldest    int            // the oldest version that a watch can resume from
	records   map[object]int // their versions
	content   string         // what new versions of objects say
	contents  map[object]string
	history   []event
	forbidden map[string]bool // by namespace
	silent    map[string]bool // namespaces in which requests get no answer
	hold      chan struct{}   // if set, streamed lists wait for it before their end
	breaks    bool            // lists don't come to their end: streams break, and all pages but the first have expired
	changed   chan struct{}   // closed with each change
	cut       chan struct{}   // closed to end all watches
	gone      map[string]bool // namespaces in which open watches get an error 410
	requests  []string
}

type event struct {
	kind string
	object
	version int
	content string
}

func newHub() *aHub {
	return &aHub{
		version: 100, records: map[object]int{}, contents: map[object]string{}, forbidden: map[string]bool{}, silent: map[string]bool{},
		gone: map[string]bool{}, changed: make(chan struct{}), cut: make(chan struct{}),
	}
}

func (h *aHub) do(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *aHub) put(namespace, name string) { h.putKind(services, namespace, name) }

func (h *aHub) putKind(resource, namespace, name string) {
	h.do(func() {
		o := object{resource, namespace, name}
		kind := "MODIFIED"
		if h.records[o] == 0 {
			kind = "ADDED"
		}
		h.version++
		h.records[o], h.contents[o] = h.version, h.content
		h.history = append(h.history, event{kind, o, h.version, h.content})
	})
}

func (h *aHub) remove(namespace, name string) {
	h.do(func() {
		o := object{services, namespace, name}
		if h.records[o] == 0 {
			return
		}
		h.version++
		delete(h.records, o)
		h.history = append(h.history, event{"DELETED", o, h.version, h.contents[o]})
	})
}

// bookmark sends the watches of a namespace a bookmark. Nothing of theirs changes, but something on the hub does.
func (h *aHub) bookmark(namespace string) {
	h.do(func() {
		h.version++
		h.history = append(h.history, event{"BOOKMARK", object{services, namespace, ""}, h.version, ""}, event{"BOOKMARK", object{endpoints, namespace, ""}, h.version, ""})
	})
}

func (h *aHub) forbid(yes bool, namespaces ...string) {
	h.do(func() {
		for _, n := range namespaces {
			h.forbidden[n] = yes
		}
	})
}

func (h *aHub) endWatches() {
	h.do(func() {
		close(h.cut)
		h.cut = make(chan struct{})
	})
}

func (h *aHub) compact() { h.do(func() { h.oldest = h.version }) }

// stop makes the hub unreachable, and ends all watches.
func (h *aHub) stop() {
	h.do(func() { h.status = -1 })
	h.endWatches()
}

func (h *aHub) start() { h.do(func() { h.status = 0 }) }

// backup returns a function that restores the hub as it is now.
func (h *aHub) backup() (restore func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	version, records, contents, history := h.version, maps.Clone(h.records), maps.Clone(h.contents), slices.Clone(h.history)
	return func() {
		h.do(func() { h.version, h.records, h.contents, h.history = version, records, contents, history })
	}
}

// asked returns the requests for one resource since its last call.
func (h *aHub) asked(resource string) (asked []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.requests {
		if what, of, _ := strings.Cut(r, " "+resource); of != "" || strings.HasSuffix(r, " "+resource) {
			asked = append(asked, what+of)
		}
	}
	h.requests = nil
	slices.Sort(asked)
	return asked
}

func (h *aHub) has(namespaces ...string) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for o, version := range h.records {
		if o.resource == services && slices.Contains(namespaces, o.namespace) {
			all = append(all, fmt.Sprint(o.namespace, "/", o.name, "@", version, h.contents[o]))
		}
	}
	slices.Sort(all)
	return all
}

func (h *aHub) sorted(resource, namespace string) []object {
	return slices.SortedFunc(func(yield func(object) bool) {
		for o := range h.records {
			if o.resource == resource && (namespace == "" || o.namespace == namespace) && !yield(o) {
				return
			}
		}
	}, func(a, b object) int { return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name) })
}

// RoundTrip implements http.RoundTripper.
func (h *aHub) RoundTrip(r *http.Request) (*http.Response, error) {
	query, namespace := r.URL.Query(), ""
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/clusterset.dev/v1alpha1/"), "/")
	resource := parts[len(parts)-1]
	if len(parts) == 3 {
		namespace = parts[1]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	version, _ := strconv.Atoi(query.Get("resourceVersion"))
	initial := query.Get("sendInitialEvents") == "true"
	what := "list"
	switch {
	case initial:
		what = "stream"
	case query.Get("watch") != "":
		what = "watch"
	}
	if s := query.Get("labelSelector"); s != "" {
		namespace += "?" + s
	}
	h.requests = append(h.requests, strings.TrimSpace(what+" "+resource+" "+namespace))
	namespace, _, _ = strings.Cut(namespace, "?")
	status := h.status
	if h.every > 0 && len(h.requests)%h.every == 0 {
		status = 0
	}
	switch {
	case status < 0:
		return nil, []error{io.EOF, errors.New("refused")}[len(h.requests)%2]
	case status > 0:
		return refuse(r, status, map[int]string{http.StatusGone: "Expired"}[status]), nil
	case h.forbidden[namespace]:
		return refuse(r, http.StatusForbidden, "Forbidden"), nil
	case h.silent[namespace]:
		h.mu.Unlock()
		<-r.Context().Done()
		h.mu.Lock()
		return nil, r.Context().Err()
	case what != "watch" && version > h.version:
		return refuse(r, http.StatusGatewayTimeout, `Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge"}]},"x":"`), nil
	case what == "list" && h.breaks && query.Get("continue") != "":
		return refuse(r, http.StatusGone, "Expired"), nil
	case what == "list":
		return h.list(r, resource, namespace), nil
	case initial && h.noStreams:
		return refuse(r, http.StatusUnprocessableEntity, "Invalid"), nil
	case !initial && version > 0 && version < h.oldest:
		return refuse(r, http.StatusGone, "Expired"), nil
	}
	body, to := io.Pipe()
	s := stream{h: h, to: to, resource: resource, namespace: namespace, after: version, cut: h.cut}
	if initial || version == 0 {
		for _, o := range h.sorted(resource, namespace) {
			s.first = append(s.first, eventOf(event{"ADDED", o, h.records[o], h.contents[o]}))
		}
		s.after = h.version
		annotations := ""
		if initial {
			annotations, s.hold = `,"annotations":{"k8s.io/initial-events-end":"true"}`, h.hold
		}
		s.end = fmt.Sprintf(`{"type":"BOOKMARK","object":{%s,"metadata":{"resourceVersion":"%d"%s}}}`, typed(resource), s.after, annotations)
		if initial && h.breaks {
			s.end = `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Timeout","code":504}}`
		}
	}
	go s.serve(r.Context())
	return &http.Response{Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

func refuse(r *http.Request, code int, reason string) *http.Response {
	return reply(r, code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`, reason, code))
}

func reply(r *http.Request, status int, content string) *http.Response {
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(content)), Body: io.NopCloser(strings.NewReader(content)),
	}
}

func typed(resource string) string {
	return fmt.Sprintf(`"kind":%q,"apiVersion":"clusterset.dev/v1alpha1"`, kindNames[resource])
}

func objectOf(e event) string {
	return fmt.Sprintf(`{%s,"metadata":{"namespace":%q,"name":%q,"uid":"%s-%s","resourceVersion":"%d","annotations":{"content":%q}}}`,
		typed(e.resource), e.namespace, e.name, e.namespace, e.name, e.version, e.content)
}

func eventOf(e event) string { return fmt.Sprintf(`{"type":%q,"object":%s}`, e.kind, objectOf(e)) }

// stream is a watch of one namespace or all.
type stream struct {
	h                   *aHub
	to                  *io.PipeWriter
	resource, namespace string
	first               []string
	end                 string
	hold, cut           chan struct{}
	after               int
}

func (s *stream) serve(ctx context.Context) {
	for _, line := range s.first {
		if _, err := io.WriteString(s.to, line+"\n"); err != nil {
			return
		}
	}
	if s.hold != nil {
		select {
		case <-ctx.Done():
			_ = s.to.CloseWithError(ctx.Err())
			return
		case <-s.hold:
		}
	}
	if s.end != "" {
		if _, err := io.WriteString(s.to, s.end+"\n"); err != nil {
			return
		}
	}
	for {
		s.h.mu.Lock()
		changed, lines, gone := s.h.changed, []string(nil), s.h.gone[s.namespace]
		for _, e := range s.h.history {
			if e.version > s.after && e.resource == s.resource && (s.namespace == "" || e.namespace == s.namespace) {
				lines = append(lines, eventOf(e))
			}
		}
		s.after = max(s.after, s.h.version)
		s.h.mu.Unlock()
		if gone {
			lines = append(lines, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`)
		}
		for _, line := range lines {
			if _, err := io.WriteString(s.to, line+"\n"); err != nil {
				return
			}
		}
		if gone {
			_ = s.to.Close()
			return
		}
		select {
		case <-ctx.Done():
			_ = s.to.CloseWithError(ctx.Err())
			return
		case <-s.cut:
			_ = s.to.Close()
			return
		case <-changed:
		}
	}
}

// list replies with a page. The continue token is the name after which the next page begins.
func (h *aHub) list(r *http.Request, resource, namespace string) *http.Response {
	query := r.URL.Query()
	n, _ := strconv.Atoi(query.Get("limit"))
	if h.limit > 0 && n > h.limit {
		n = h.limit
	}
	after, more := query.Get("continue"), ""
	if h.stale && query.Get("resourceVersion") == "0" {
		return reply(r, http.StatusOK, fmt.Sprintf(`{"kind":"%sList","apiVersion":"clusterset.dev/v1alpha1","metadata":{"resourceVersion":"1"},"items":[]}`, kindNames[resource]))
	}
	var items []string
	for _, o := range h.sorted(resource, namespace) {
		key := o.namespace + "/" + o.name
		if after != "" && key <= after {
			continue
		}
		if n > 0 && len(items) == n {
			break
		}
		items, more = append(items, objectOf(event{"", o, h.records[o], h.contents[o]})), key
	}
	if n == 0 || len(items) < n {
		more = ""
	}
	return reply(r, http.StatusOK, fmt.Sprintf(`{"kind":"%sList","apiVersion":"clusterset.dev/v1alpha1","metadata":{"resourceVersion":"%d","continue":%q},"items":[%s]}`,
		kindNames[resource], h.version, more, strings.Join(items, ",")))
}
